"""The claims of skrl."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from claim import Claim
from shard_envs import BESIDE, CAMERA, task

SHORT = {
    "agent.rollouts": 16,
    "agent.learning_epochs": 3,
    "agent.mini_batches": 1,
    "agent.learning_rate": 3e-4,
}
FOUR = {**SHORT, "agent.mini_batches": 4}
PPO = functools.partial(Claim, library="skrl", algorithm="ppo")
A2C = functools.partial(
    Claim,
    library="skrl",
    algorithm="a2c",
    agent={"agent.rollouts": 16, "agent.mini_batches": 4},
    mini_batches=4,
)

IMAGES = [
    {
        "name": "features",
        "input": "permute(OBSERVATIONS, (0, 3, 1, 2))",
        "layers": [{"conv2d": {"out_channels": 4, "kernel_size": 3, "stride": 2}}, "flatten"],
        "activations": "elu",
    },
    {"name": "net", "input": "features", "layers": [32], "activations": "elu"},
]
CRITICS = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
REPLAY = {
    "agent.batch_size": 16,
    "agent.gradient_steps": 2,
    "agent.random_timesteps": 4,
    "agent.learning_starts": 6,
    "agent.experiment.write_interval": 8,
    "memory.memory_size": 12,  # Of 16 steps: the first ones are overwritten.
}


def with_replay(
    algorithm: str, features: str, agent: Mapping[str, Any] | None = None, **more: Any
) -> Claim:
    batches = {"scaled": ("agent.batch_size",), "batch_size": REPLAY["agent.batch_size"]}
    agent = {**REPLAY, **(agent or {})}
    named = {"library": "skrl", "algorithm": algorithm, "features": features}
    return Claim(**named, agent=agent, **batches, **more)


def four(features: str, agent: Mapping[str, Any] | None = None, **more: Any) -> Claim:
    return PPO(features=features, agent={**FOUR, **(agent or {})}, mini_batches=4, **more)


DISCRETE = "rltrain/CartPole-v1"
CRITIC = task("policy and critic")
ENTROPY = {"agent.entropy_loss_scale": 0.01, "agent.value_clip": 0.2}

SKRL = (
    PPO(features="observation and value normalizers, KLAdaptiveLR", agent=SHORT),
    four("4 mini-batches", on_gloo=True),
    four("mini-batches sampled with replacement", {"memory.replacement": True}),
    PPO(features="entropy bonus, clipped values", agent={**SHORT, **ENTROPY}),
    four("discrete actions", task=DISCRETE),
    four("multi-discrete actions", **task(actions="multi-discrete")),
    four("one network for policy and value", {"models.separate": False}),
    four(
        "images of floats",
        {"models.policy.network": IMAGES, "models.value.network": IMAGES},
        **task("images of floats"),
    ),
    four("images of bytes, the state for the critic", task=CAMERA),
    four("images of bytes with a vector, one network for policy and value", task=BESIDE),
    four(
        "multivariate Gaussian policy, rewards scaled, no bootstrap at time limits",
        {
            "models.policy.class": "MultivariateGaussianMixin",
            "agent.rewards_shaper_scale": 0.1,
            "agent.time_limit_bootstrap": False,
        },
    ),
    four(
        "asymmetric critic (observation group `critic`)",
        {"models.value.network.0.input": "STATES"},
        **CRITIC,
    ),
    four(
        "early stopping by the KL divergence (kl_threshold)",
        {"agent.kl_threshold": 0.01, "agent.learning_rate": 1e-3},
    ),
    four("4 mini-batches, normalizers, KLAdaptiveLR", algorithm="rpo"),
    A2C(features="normalizers"),
    A2C(features="discrete actions", task=DISCRETE),
    A2C(features="multi-discrete actions", **task(actions="multi-discrete")),
    with_replay("sac", "observation normalizer, learned entropy coefficient", on_gloo=True),
    with_replay("sac", "batches without replacement", {"memory.replacement": False}),
    with_replay(
        "sac",
        "asymmetric critics (observation group `critic`)",
        {f"models.{name}.network.0.input": "concatenate([STATES, ACTIONS])" for name in CRITICS},
        **CRITIC,
    ),
    with_replay("td3", "observation normalizer, exploration and smoothing noise, delayed policy"),
    with_replay("ddpg", "observation normalizer, exploration noise"),
    with_replay("dqn", "discrete actions, exploration", task=DISCRETE),
    with_replay("ddqn", "discrete actions, exploration", task=DISCRETE),
)
