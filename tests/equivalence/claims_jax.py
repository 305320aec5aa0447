"""The claims of skrl's jax agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ROLLOUT = {
    "agent.rollouts": 16,
    "agent.learning_epochs": 3,
    "agent.mini_batches": 1,
    "agent.learning_rate": 3e-4,
}
FOUR = {**ROLLOUT, "agent.mini_batches": 4}
REPLAY = {"agent.batch_size": 16, "agent.gradient_steps": 2, "memory.memory_size": 16}


@dataclass(frozen=True, kw_only=True)
class JaxClaim:
    """One update that is claimed to be equal on N ranks and on one rank with all their data."""

    algorithm: str
    features: str
    """What is in play, for the table."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the library's options, by dotted key."""
    action: str = "continuous"
    """Kind of the actions."""
    critic: bool = False
    """Whether there is an observation group `critic`."""
    num_envs: int = 8
    """Environments a rank."""
    on_gloo: bool = False
    """Whether it is tested on two real processes too."""
    library: str = "skrl (jax)"
    """For the table."""

    def __str__(self) -> str:
        return f"{self.library} {self.algorithm}: {self.features}"


def with_replay(algorithm: str, features: str, **more: Any) -> JaxClaim:
    return JaxClaim(algorithm=algorithm, features=features, agent=REPLAY, **more)


def four(features: str, agent: Mapping[str, Any] | None = None, **more: Any) -> JaxClaim:
    return JaxClaim(**{"algorithm": "ppo", **more}, features=features, agent=FOUR | (agent or {}))


WITHOUT_EPOCHS = {name: value for name, value in FOUR.items() if "epochs" not in name}
ENTROPY = {"agent.entropy_loss_scale": 0.01}

JAX = (
    JaxClaim(
        algorithm="ppo", features="observation and value normalizers, KLAdaptiveLR", agent=ROLLOUT
    ),
    four("4 mini-batches", on_gloo=True),
    four("discrete actions, entropy bonus", ENTROPY, action="discrete"),
    four("multi-discrete actions, entropy bonus", ENTROPY, action="multi_discrete"),
    four(
        "asymmetric critic (observation group `critic`)",
        {"models.value.network.0.input": "STATES"},
        critic=True,
    ),
    four(
        "early stopping by the KL divergence (kl_threshold)",
        {"agent.kl_threshold": 0.05, "agent.learning_rate": 1e-3},
    ),
    JaxClaim(algorithm="a2c", features="normalizers", agent=WITHOUT_EPOCHS),
    four("4 mini-batches, normalizers, no noise (alpha 0)", {"agent.alpha": 0.0}, algorithm="rpo"),
    with_replay("sac", "observation normalizer, learned entropy coefficient", on_gloo=True),
    with_replay("td3", "observation normalizer, smoothing noise, delayed policy"),
    with_replay("ddpg", "observation normalizer"),
    with_replay("dqn", "discrete actions", action="discrete"),
    with_replay("ddqn", "discrete actions", action="discrete"),
)
