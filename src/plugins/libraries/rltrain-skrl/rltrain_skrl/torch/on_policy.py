"""The agents for torch that learn from rollouts, with one optimizer for policy and value."""

from __future__ import annotations

from typing import Any

import torch
from skrl.agents.torch.a2c import A2C
from skrl.agents.torch.ppo import PPO
from skrl.agents.torch.rpo import RPO
from skrl.models.torch import Model
from skrl.resources.schedulers.torch import KLAdaptiveLR

from rltrain_skrl.on_policy import EarlyStopping
from rltrain_skrl.torch.agent import TorchAgent
from rltrain_skrl.torch.divergence import PooledSchedule, SharedThreshold
from rltrain_skrl.torch.memory import RolloutMemory
from rltrain_torch.late_mean import LateMean

__all__ = ["SessionA2C", "SessionPPO", "SessionRPO"]


class _OnPolicy(TorchAgent):
    """Mixin for an agent of skrl that has one optimizer for its policy and its value."""

    memory_class = RolloutMemory

    policy: Model
    value: Model
    optimizer: torch.optim.Optimizer

    def synchronize_gradients(self) -> None:
        """Average the gradients of policy and value together."""
        self.average_together(self.optimizer, self.policy, self.value)


class _StoppingEarly(EarlyStopping, _OnPolicy):
    threshold_class = SharedThreshold

    # skrl's, replaced by this class.
    scheduler: Any

    _divergence: LateMean | None = None

    def synchronize_gradients(self) -> None:
        """Average the gradients of policy and value together, and what sets the learning rate."""
        self.share_threshold()
        if self._session.group.world_size > 1 and isinstance(self.scheduler, KLAdaptiveLR):
            self.scheduler = PooledSchedule(self.scheduler, self.cfg.kl_threshold)
            self._divergence = self.scheduler.divergence
        self.average_together(self.optimizer, self.policy, self.value, divergence=self._divergence)

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn; see skrl."""
        super().update(timestep=timestep, timesteps=timesteps)
        if self._divergence is not None:
            self._divergence.settle()


class SessionPPO(_StoppingEarly, PPO):
    """PPO of the session."""


class SessionRPO(_StoppingEarly, RPO):
    """RPO of the session."""


class SessionA2C(_OnPolicy, A2C):
    """A2C of the session."""
