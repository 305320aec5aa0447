"""Trains Pendulum-v1 with rl_games alone, as a user's own script does. Arguments: a folder."""

import copy
import sys
from pathlib import Path

import gymnasium
import numpy as np
import yaml
from rl_games.common import env_configurations, vecenv
from rl_games.common.ivecenv import IVecEnv
from rl_games.torch_runner import Runner

AGENT = {
    "params": {
        "seed": 1,
        "algo": {"name": "a2c_continuous"},
        "model": {"name": "continuous_a2c_logstd"},
        "network": {
            "name": "actor_critic",
            "separate": False,
            "space": {
                "continuous": {
                    "mu_activation": "None",
                    "sigma_activation": "None",
                    "mu_init": {"name": "default"},
                    "sigma_init": {"name": "const_initializer", "val": 0},
                    "fixed_sigma": True,
                }
            },
            "mlp": {"units": [16], "activation": "elu", "initializer": {"name": "default"}},
        },
        "config": {
            "name": "pendulum",
            "env_name": "pendulum",
            "reward_shaper": {"scale_value": 0.1},
            "normalize_input": True,
            "normalize_advantage": True,
            "normalize_value": True,
            "value_bootstrap": True,
            "num_actors": 4,
            "horizon_length": 8,
            "minibatch_size": 16,
            "mini_epochs": 2,
            "gamma": 0.99,
            "tau": 0.95,
            "ppo": True,
            "learning_rate": 1e-3,
            "lr_schedule": "identity",
            "kl_threshold": 0.01,
            "e_clip": 0.2,
            "clip_value": True,
            "critic_coef": 1.0,
            "entropy_coef": 0.0,
            "bounds_loss_coef": 0.0,
            "grad_norm": 1.0,
            "truncate_grads": True,
            "max_epochs": 3,
            "save_frequency": 1,
            "save_best_after": 1,
            "score_to_win": 1e9,
            "device": "cpu",
            "device_name": "cpu",
            "torch_compile": False,
        },
    }
}


class Pendulums(IVecEnv):
    """Gymnasium's environments with rl_games' interface."""

    def __init__(self, config_name, num_actors, **kwargs):
        self.env = gymnasium.make_vec("Pendulum-v1", num_envs=num_actors)

    def reset(self):
        return self.env.reset(seed=1)[0]

    def step(self, actions):
        seen, rewards, ended, cut, _ = self.env.step(actions)
        return seen, rewards.astype(np.float32), ended | cut, {"time_outs": cut}

    def get_env_info(self):
        spaces = self.env.single_observation_space, self.env.single_action_space
        return dict(zip(("observation_space", "action_space"), spaces, strict=True), agents=1)


folder = Path(sys.argv[1])
(folder / "params").mkdir(parents=True)
(folder / "params" / "agent.yaml").write_text(yaml.safe_dump(AGENT))
agent = copy.deepcopy(AGENT)
agent["params"]["config"].update(train_dir=str(folder.parent), full_experiment_name=folder.name)
vecenv.register("PENDULUMS", lambda name, actors, **kwargs: Pendulums(name, actors, **kwargs))
env_configurations.register(
    "pendulum", {"vecenv_type": "PENDULUMS", "env_creator": lambda **kwargs: None}
)
runner = Runner()
runner.load(agent)
runner.run({"train": True, "play": False})
