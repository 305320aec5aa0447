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
    """Return the claim of an algorithm with a replay buffer."""
    return Claim(
        library="skrl",
        algorithm=algorithm,
        features=features,
        agent={**REPLAY, **(agent or {})},
        scaled=("agent.batch_size",),
        batch_size=REPLAY["agent.batch_size"],
        **more,
    )


SKRL = (
    PPO(features="observation and value normalizers, KLAdaptiveLR", agent=SHORT),
    PPO(features="4 mini-batches", agent=FOUR, mini_batches=4, on_gloo=True),
    PPO(
        features="mini-batches sampled with replacement",
        agent={**FOUR, "memory.replacement": True},
        mini_batches=4,
    ),
    PPO(
        features="entropy bonus, clipped values",
        agent={**SHORT, "agent.entropy_loss_scale": 0.01, "agent.value_clip": 0.2},
    ),
    PPO(features="discrete actions", task="rltrain/CartPole-v1", agent=FOUR, mini_batches=4),
    PPO(
        features="multi-discrete actions",
        **task(actions="multi-discrete"),
        agent=FOUR,
        mini_batches=4,
    ),
    PPO(
        features="one network for policy and value",
        agent={**FOUR, "models.separate": False},
        mini_batches=4,
    ),
    PPO(
        features="images of floats",
        agent={**FOUR, "models.policy.network": IMAGES, "models.value.network": IMAGES},
        **task("images of floats"),
        mini_batches=4,
    ),
    PPO(
        features="images of bytes, the state for the critic",
        task=CAMERA,
        agent=FOUR,
        mini_batches=4,
    ),
    PPO(
        features="images of bytes with a vector, one network for policy and value",
        task=BESIDE,
        agent=FOUR,
        mini_batches=4,
    ),
    PPO(
        features="multivariate Gaussian policy, rewards scaled, no bootstrap at time limits",
        agent={
            **FOUR,
            "models.policy.class": "MultivariateGaussianMixin",
            "agent.rewards_shaper_scale": 0.1,
            "agent.time_limit_bootstrap": False,
        },
        mini_batches=4,
    ),
    PPO(
        features="asymmetric critic (observation group `critic`)",
        agent={**FOUR, "models.value.network.0.input": "STATES"},
        **task("policy and critic"),
        mini_batches=4,
    ),
    PPO(
        features="early stopping by the KL divergence (kl_threshold)",
        agent={**FOUR, "agent.kl_threshold": 0.01, "agent.learning_rate": 1e-3},
        mini_batches=4,
    ),
    Claim(
        library="skrl",
        algorithm="rpo",
        features="4 mini-batches, normalizers, KLAdaptiveLR",
        agent=FOUR,
        mini_batches=4,
    ),
    A2C(features="normalizers"),
    A2C(features="discrete actions", task="rltrain/CartPole-v1"),
    A2C(features="multi-discrete actions", **task(actions="multi-discrete")),
    with_replay("sac", "observation normalizer, learned entropy coefficient", on_gloo=True),
    with_replay("sac", "batches without replacement", {"memory.replacement": False}),
    with_replay(
        "sac",
        "asymmetric critics (observation group `critic`)",
        {
            f"models.{critic}.network.0.input": "concatenate([STATES, ACTIONS])"
            for critic in CRITICS
        },
        **task("policy and critic"),
    ),
    with_replay("td3", "observation normalizer, exploration and smoothing noise, delayed policy"),
    with_replay("ddpg", "observation normalizer, exploration noise"),
    with_replay("dqn", "discrete actions, exploration", task="rltrain/CartPole-v1"),
    with_replay("ddqn", "discrete actions, exploration", task="rltrain/CartPole-v1"),
)
