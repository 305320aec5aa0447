"""The agents for torch that learn in every step, from a replay buffer."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from skrl.agents.torch.ddpg import DDPG
from skrl.agents.torch.ddqn import DDQN
from skrl.agents.torch.dqn import DQN
from skrl.agents.torch.sac import SAC
from skrl.agents.torch.td3 import TD3
from skrl.models.torch import Model
from skrl.resources.noises.torch import Noise

from rltrain_skrl.off_policy import ActionNoise, OffPolicy
from rltrain_skrl.torch.agent import TorchAgent
from rltrain_skrl.torch.memory import ReplayMemory
from rltrain_skrl.torch.progress import EntropyCoefficient, UpdateCounter
from rltrain_skrl.workarounds import SacMetrics
from rltrain_torch.gradients import synchronize

__all__ = ["SessionDDPG", "SessionDDQN", "SessionDQN", "SessionSAC", "SessionTD3"]


class _OffPolicy(OffPolicy, TorchAgent):
    """Mixin for an agent of skrl for torch that has a replay buffer."""

    memory_class = ReplayMemory
    noise_class = Noise
    array_class = torch.Tensor

    def _to_host(self, array: torch.Tensor) -> np.ndarray:
        return array.cpu().numpy()

    def _to_device(self, array: np.ndarray, device: torch.device) -> torch.Tensor:
        return torch.as_tensor(array, device=device)


class SessionSAC(SacMetrics, _OffPolicy, SAC):
    """SAC of the session, its entropy coefficient learned from the data of all ranks."""

    log_entropy_coefficient: torch.Tensor
    entropy_optimizer: torch.optim.Optimizer

    def _unsaved(self) -> dict[str, Any]:
        parts = super()._unsaved()
        if self.cfg.learn_entropy:
            parts["entropy_coefficient"] = self._own_coefficient()
        return parts

    def _own_coefficient(self) -> EntropyCoefficient:
        """Replace skrl's tensor with the parameter of a wrapped module; return the module."""
        own: EntropyCoefficient = self._session.wrap_model(
            EntropyCoefficient(self.log_entropy_coefficient), "entropy_coefficient"
        )
        self.log_entropy_coefficient = own.log
        self.entropy_optimizer.param_groups[0]["params"] = [own.log]
        return own

    def synchronize_gradients(self) -> None:
        """Average the gradients of the critics, of the policy and of the entropy coefficient."""
        self.average_together(self.critic_optimizer, self.critic_1, self.critic_2)
        self.average_together(self.policy_optimizer, self.policy)
        if self.cfg.learn_entropy:
            log = self.log_entropy_coefficient
            sync = self._session.gradient_sync([log], may_overflow=self.scaler.is_enabled())
            # Between this gradient and the step, skrl calls no method to override.
            average = functools.partial(synchronize, sync, [log])
            log.register_post_accumulate_grad_hook(lambda _: average())  # type: ignore[no-untyped-call]

    def resume(self, path: Path) -> None:
        """Load a checkpoint of skrl. Every rank does; see `_OffPolicy.resume`."""
        super().resume(path)
        if self.cfg.learn_entropy and self.entropy_optimizer.state:
            self._entropy_coefficient = torch.exp(self.log_entropy_coefficient.detach())


class _Counting(_OffPolicy):
    """An agent of skrl that makes some of its updates in every n-th gradient step only."""

    def _unsaved(self) -> dict[str, Any]:
        return {**super()._unsaved(), "updates": UpdateCounter(self)}


class SessionTD3(ActionNoise, _Counting, TD3):
    """TD3 of the session."""

    def synchronize_gradients(self) -> None:
        """Average the gradients of the critics, and those of the policy."""
        self.average_together(self.critic_optimizer, self.critic_1, self.critic_2)
        self.average_together(self.policy_optimizer, self.policy)


class SessionDDPG(ActionNoise, _OffPolicy, DDPG):
    """DDPG of the session."""

    def synchronize_gradients(self) -> None:
        """Average the gradients of the critic, and those of the policy."""
        self.average_together(self.critic_optimizer, self.critic)
        self.average_together(self.policy_optimizer, self.policy)


class _QNetwork(_Counting):
    """DQN or DDQN of the session."""

    q_network: Model
    optimizer: torch.optim.Optimizer

    def synchronize_gradients(self) -> None:
        """Average the gradients of the Q-network."""
        self.average_together(self.optimizer, self.q_network)


class SessionDQN(_QNetwork, DQN):
    """DQN of the session."""


class SessionDDQN(_QNetwork, DDQN):
    """DDQN of the session."""
