"""rsl_rl 3's options as classes."""

from __future__ import annotations

from dataclasses import MISSING

from isaaclab.utils import configclass


@configclass
class RslRlPpoActorCriticCfg:
    class_name: str = "ActorCritic"
    init_noise_std: float = 1.0
    noise_std_type: str = "scalar"
    state_dependent_std: bool = False
    actor_obs_normalization: bool = False
    critic_obs_normalization: bool = False
    actor_hidden_dims: list = [32, 32]
    critic_hidden_dims: list = [32, 32]
    activation: str = "elu"


@configclass
class RslRlPpoAlgorithmCfg:
    class_name: str = "PPO"
    num_learning_epochs: int = 5
    num_mini_batches: int = 4
    learning_rate: float = 1.0e-3
    schedule: str = "adaptive"
    gamma: float = 0.99
    lam: float = 0.95
    entropy_coef: float = 0.005
    desired_kl: float = 0.01
    max_grad_norm: float = 1.0
    value_loss_coef: float = 1.0
    use_clipped_value_loss: bool = True
    clip_param: float = 0.2
    normalize_advantage_per_mini_batch: bool = False
    rnd_cfg: object = None
    symmetry_cfg: object = None


@configclass
class CartpolePPORunnerCfg:
    seed: int = 42
    device: str = "cuda:0"
    num_steps_per_env: int = 16
    max_iterations: int = 150
    empirical_normalization: bool = False
    obs_groups: dict = MISSING
    clip_actions: float | None = None
    save_interval: int = 50
    experiment_name: str = "cartpole"
    run_name: str = ""
    logger: str = "tensorboard"
    neptune_project: str = "isaaclab"
    wandb_project: str = "isaaclab"
    resume: bool = False
    load_run: str = ".*"
    load_checkpoint: str = "model_.*.pt"
    class_name: str = "OnPolicyRunner"
    policy: object = RslRlPpoActorCriticCfg()
    algorithm: object = RslRlPpoAlgorithmCfg()


@configclass
class CartpoleAsymmetricRunnerCfg(CartpolePPORunnerCfg):
    obs_groups = {"policy": ["policy"], "critic": ["critic"]}
