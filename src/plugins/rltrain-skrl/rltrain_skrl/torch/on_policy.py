"""The agents for torch that learn from rollouts, with one optimizer for policy and value."""

from __future__ import annotations

import torch
from skrl.agents.torch.a2c import A2C
from skrl.agents.torch.ppo import PPO
from skrl.agents.torch.rpo import RPO
from skrl.models.torch import Model

from rltrain_skrl.on_policy import EarlyStopping
from rltrain_skrl.torch.agent import TorchAgent
from rltrain_skrl.torch.memory import RolloutMemory
from rltrain_skrl.torch.threshold import SharedThreshold

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


class SessionPPO(_StoppingEarly, PPO):
    """PPO of the session."""


class SessionRPO(_StoppingEarly, RPO):
    """RPO of the session."""


class SessionA2C(_OnPolicy, A2C):
    """A2C of the session."""
