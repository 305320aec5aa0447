"""The agents that learn from rollouts, with one optimiser for policy and value."""

from __future__ import annotations

from typing import Any

import torch
from skrl.agents.torch.a2c import A2C
from skrl.agents.torch.ppo import PPO
from skrl.agents.torch.rpo import RPO
from skrl.models.torch import Model

from rltrain.session import Session
from rltrain_skrl.torch.agent import TorchAgent
from rltrain_skrl.torch.memory import RolloutMemory
from rltrain_skrl.torch.threshold import SharedThreshold

__all__ = ["SessionA2C", "SessionPPO", "SessionRPO"]


class _OnPolicy(TorchAgent):
    """Goes before an agent of skrl that has one optimiser for its policy and its value."""

    memory_class = RolloutMemory

    policy: Model
    value: Model
    optimizer: torch.optim.Optimizer

    def synchronise_gradients(self) -> None:
        """Average the gradients of policy and value together."""
        self.average_together(self.optimizer, self.policy, self.value)


class _StoppingEarly(_OnPolicy):
    """An agent that leaves an epoch when the KL divergence is above `kl_threshold`."""

    def __init__(self, *, session: Session, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`."""
        super().__init__(session=session, **components)
        if session.group.world_size > 1:
            self.cfg.kl_threshold = SharedThreshold(self.cfg.kl_threshold, session.group)


class SessionPPO(_StoppingEarly, PPO):
    """PPO of the session."""


class SessionRPO(_StoppingEarly, RPO):
    """RPO of the session."""


class SessionA2C(_OnPolicy, A2C):
    """A2C of the session."""
