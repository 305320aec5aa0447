"""The agents for jax that learn from rollouts."""

from __future__ import annotations

from typing import Any

from skrl.agents.jax.a2c import A2C
from skrl.agents.jax.ppo import PPO
from skrl.agents.jax.rpo import RPO
from skrl.models.jax import Model

from rltrain_skrl.jax.agent import JaxAgent
from rltrain_skrl.jax.divergence import PooledDivergence, SharedThreshold
from rltrain_skrl.jax.memory import RolloutMemory
from rltrain_skrl.on_policy import EarlyStopping

__all__ = ["SessionA2C", "SessionPPO", "SessionRPO"]


class _OnPolicy(JaxAgent):
    """Mixin for an agent of skrl that steps its policy first and its value second."""

    memory_class = RolloutMemory

    # skrl's, read by this class.
    policy: Model
    value: Model
    policy_scheduler_type: Any
    value_scheduler_type: Any

    _divergence: PooledDivergence | None = None

    def synchronize_gradients(self) -> None:
        """Average the gradients of policy and value together, and what sets learning rates."""
        types = {"policy": self.policy_scheduler_type, "value": self.value_scheduler_type}
        adaptive = [name for name, kind in types.items() if kind is not None]
        group = self._session.group
        if adaptive and group.world_size > 1:
            self._divergence = PooledDivergence(self, group)
            for name in adaptive:
                self._divergence.pool(name)
        self.average_together(
            self._divergence, policy_optimizer=self.policy, value_optimizer=self.value
        )

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn; see skrl."""
        super().update(timestep=timestep, timesteps=timesteps)
        if self._divergence is not None:
            self._divergence.settle()


class _StoppingEarly(EarlyStopping, _OnPolicy):
    threshold_class = SharedThreshold

    def synchronize_gradients(self) -> None:
        """Average the gradients of policy and value together, as long as no epoch ends."""
        self.share_threshold()
        super().synchronize_gradients()


class SessionPPO(_StoppingEarly, PPO):
    """PPO of the session."""


class SessionRPO(_StoppingEarly, RPO):
    """RPO of the session."""


class SessionA2C(_OnPolicy, A2C):
    """A2C of the session."""
