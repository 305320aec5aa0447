"""The agents for jax that learn from rollouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skrl.agents.jax.a2c import A2C
from skrl.agents.jax.ppo import PPO
from skrl.agents.jax.rpo import RPO
from skrl.models.jax import Model

from rltrain.session import Session
from rltrain_skrl.jax.agent import JaxAgent
from rltrain_skrl.jax.memory import RolloutMemory
from rltrain_skrl.jax.threshold import SharedDivergence, SharedThreshold
from rltrain_skrl.on_policy import EarlyStopping

__all__ = ["SessionA2C", "SessionPPO", "SessionRPO"]


class _OnPolicy(JaxAgent):
    """Mixin for an agent of skrl that steps its policy first and its value second."""

    memory_class = RolloutMemory

    # skrl's, read by this class.
    policy: Model
    value: Model
    policy_scheduler: Callable[..., float] | None
    policy_scheduler_type: Any
    value_scheduler: Callable[..., float] | None
    value_scheduler_type: Any

    def __init__(self, *, session: Session, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`."""
        super().__init__(session=session, **components)
        if session.group.world_size == 1:
            return
        divergence = SharedDivergence(session.group)
        if self.policy_scheduler and self.policy_scheduler_type is not None:
            self.policy_scheduler = divergence.share(self.policy_scheduler)
        if self.value_scheduler and self.value_scheduler_type is not None:
            self.value_scheduler = divergence.share(self.value_scheduler)

    def synchronize_gradients(self) -> None:
        """Average the gradients of policy and value together."""
        self.average_together(policy_optimizer=self.policy, value_optimizer=self.value)


class _StoppingEarly(EarlyStopping, _OnPolicy):
    threshold_class = SharedThreshold


class SessionPPO(_StoppingEarly, PPO):
    """PPO of the session."""


class SessionRPO(_StoppingEarly, RPO):
    """RPO of the session."""


class SessionA2C(_OnPolicy, A2C):
    """A2C of the session."""
