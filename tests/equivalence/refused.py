"""Combinations refused before ranks start, because N ranks would not learn as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Refused:
    library: str
    algorithm: str
    features: str
    """What is asked for, for the table."""
    reason: str
    """Words of the message that say why, for the table."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the library's options, by dotted key."""
    base: str | None = None
    """The algorithm whose options these override; None: that of this line."""
    task: str = "rltrain/CartPoleContinuous-v1"
    framework: str = "torch"

    def __str__(self) -> str:
        return f"{self.library} {self.algorithm}: {self.features}"


CART = {"task": "rltrain/CartPole-v1"}
ONE_AGENT = "it trains several agents, and suites have tasks with one"
OF_SKRL = {
    "TRPO": "every rank would take a different step",
    "AMP": "it learns from reference motions, which skrl asks the task for",
    "IPPO": ONE_AGENT,
    "MAPPO": ONE_AGENT,
    "CEM": "it chooses among the episodes of one rank's rollout",
}
WRONG = (
    "actions of the other kind",
    "RPO, SAC, TD3 and DDPG act in continuous action spaces, DQN and DDQN in discrete ones",
)

REFUSED = (
    Refused("rsl_rl", "ppo", "discrete actions", "rsl_rl has no categorical distribution", **CART),
    Refused(
        *("rsl_rl", "ppo", "batch normalization of images"),
        "cnn_cfg.norm=batch normalizes by one rank's mini-batch",
        {"+actor.cnn_cfg": {"norm": "batch"}},
    ),
    Refused(
        *("rsl_rl", "ppo", "a custom algorithm"),
        "rltrain runs subclasses of rsl_rl's PPO and Distillation",
        {"algorithm.class_name": "my_package.MyPPO"},
    ),
    Refused("rsl_rl", "distillation", "no teacher", "A student learns from a trained teacher"),
    Refused(
        *("rl_games", "ppo", "normalize_rms_advantage", "rl_games fails on it with a TypeError"),
        {"+params.config.normalize_rms_advantage": True},
    ),
    Refused(
        *("rl_games", "ppo", "self-play", "self-play swaps opponents by rank 0's results alone"),
        {"+params.config.self_play_config": {"update_score": 1}},
    ),
    Refused(
        *("rl_games", "ppo", "population-based training"),
        "rl_games trains a population as separate jobs",
        {"+params.config.population_based_training": True},
    ),
    Refused(
        *("rl_games", "ppo"),
        "adaptive learning rate, schedule_type other than legacy and standard",
        "with any other value, its learning rate never changes",
        {"params.config.schedule_type": "standard_epoch"},
    ),
    Refused(
        *("rl_games", "ppo", "recurrent asymmetric critic, feedforward actor"),
        "rl_games keeps the critic's recurrent states only where the actor has some",
        {"+params.config.central_value_config": {"network": {"rnn": {"name": "gru"}}}},
    ),
    Refused(
        *("rl_games", "ppo", "action masks", "rltrain's environments give no masks"),
        {"+params.config.use_action_masks": True},
    ),
    Refused(
        *("rl_games", "sac", "d2rl layers", "rl_games' SAC cannot build such a network"),
        {"+params.network.mlp.d2rl": True},
    ),
    Refused(
        *("rl_games", "sac", "one network for actor and critic"),
        "rl_games' SAC then has no critic",
        {"params.network.separate": False},
    ),
    Refused(
        *("rl_games", "sac", "discrete actions"),
        "the task's actions are of another kind than the agent's",
        **CART,
    ),
    Refused(
        *("skrl", "ppo", "recurrent"),
        "skrl's Runner, whose options this plugin uses, supports neither recurrent models",
        {"agent.class": "PPO_RNN"},
    ),
    Refused(
        *("skrl", "ppo", "memory of a different size than the rollout"),
        "skrl would learn from rows of older rollouts",
        {"memory.memory_size": 7},
    ),
    *(
        Refused("skrl", name.lower(), "any", reason, {"agent.class": name}, base="ppo")
        for name, reason in OF_SKRL.items()
    ),
    *(Refused("skrl", name, *WRONG, **CART) for name in ("rpo", "sac", "td3", "ddpg")),
    Refused(
        *("skrl", "ppo", "multivariate Gaussian policy with jax"),
        "skrl has this policy for torch only",
        {"models.policy.class": "MultivariateGaussianMixin"},
        framework="jax",
    ),
    *(Refused("skrl", name, *WRONG) for name in ("dqn", "ddqn")),
)
