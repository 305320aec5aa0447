"""The agents that learn in every step, from a replay buffer."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from skrl.agents.torch.ddpg import DDPG
from skrl.agents.torch.ddqn import DDQN
from skrl.agents.torch.dqn import DQN
from skrl.agents.torch.sac import SAC
from skrl.agents.torch.td3 import TD3
from skrl.models.torch import Model

from rltrain_skrl.off_policy import OffPolicy, check_bounds
from rltrain_skrl.torch.agent import TorchAgent
from rltrain_skrl.torch.off_policy_memory import ReplayMemory
from rltrain_skrl.torch.off_policy_parts import (
    EntropyCoefficient,
    UpdateCounter,
    get_noise,
    noises,
    set_noise,
)
from rltrain_torch.gradients import synchronise

__all__ = ["SessionDDPG", "SessionDDQN", "SessionDQN", "SessionSAC", "SessionTD3"]


class _OffPolicy(OffPolicy, TorchAgent):
    """Goes before an agent of skrl for torch that has a replay buffer."""

    memory_class = ReplayMemory
    actor = "policy"
    """Role of the model that acts."""

    memory: ReplayMemory
    models: dict[str, Model]

    def get_noise(self) -> dict[str, Any]:
        """Return what the noises remember, on the host."""
        return get_noise(self)

    def set_noise(self, states: dict[str, Any]) -> None:
        """Let the noises go on from what `get_noise` returned."""
        set_noise(self, states)


class SessionSAC(_OffPolicy, SAC):
    """SAC of the session, its entropy coefficient learned from the data of all ranks."""

    log_entropy_coefficient: torch.Tensor
    entropy_optimizer: torch.optim.Optimizer

    def _unsaved(self) -> dict[str, Any]:
        parts = super()._unsaved()
        if self.cfg.learn_entropy:
            parts["entropy_coefficient"] = self._own_coefficient()
        return parts

    def _own_coefficient(self) -> EntropyCoefficient:
        """Put a wrapped module's parameter in the place of skrl's tensor; return the module."""
        own: EntropyCoefficient = self._session.wrap_model(
            EntropyCoefficient(self.log_entropy_coefficient), "entropy_coefficient"
        )
        self.log_entropy_coefficient = own.log
        self.entropy_optimizer.param_groups[0]["params"] = [own.log]
        return own

    def synchronise_gradients(self) -> None:
        """Average the gradients of the critics, of the policy and of the entropy coefficient."""
        self.average_together(self.critic_optimizer, self.critic_1, self.critic_2)
        self.average_together(self.policy_optimizer, self.policy)
        if self.cfg.learn_entropy:
            log = self.log_entropy_coefficient
            sync = self._session.gradient_sync([log])
            # skrl calls nothing between this gradient and the step.
            average = functools.partial(synchronise, sync, [log])
            log.register_post_accumulate_grad_hook(lambda _: average())  # type: ignore[no-untyped-call]

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn; see skrl."""
        # Only with an interval above zero does SAC track its figures.
        self.write_interval = 1
        super().update(timestep=timestep, timesteps=timesteps)
        self.write_interval = 0

    def resume(self, path: Path) -> None:
        """Load a checkpoint of skrl. Every rank does; see `_OffPolicy.resume`."""
        super().resume(path)
        if self.cfg.learn_entropy and self.entropy_optimizer.state:
            self._entropy_coefficient = torch.exp(self.log_entropy_coefficient.detach())


class _Counting(_OffPolicy):
    """An agent of skrl that makes some of its updates once in several gradient steps."""

    def _unsaved(self) -> dict[str, Any]:
        return {**super()._unsaved(), "updates": UpdateCounter(self)}


class _Noisy(_OffPolicy):
    """An agent of skrl whose policy is a function, to which noise is added."""

    def __init__(self, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`.

        Raises:
            UsageError: the task's actions have no bounds for skrl to keep the noise within.
        """
        super().__init__(**components)
        check_bounds(self, noises(self))


class SessionTD3(_Noisy, _Counting, TD3):
    """TD3 of the session."""

    def synchronise_gradients(self) -> None:
        """Average the gradients of the critics, and those of the policy."""
        self.average_together(self.critic_optimizer, self.critic_1, self.critic_2)
        self.average_together(self.policy_optimizer, self.policy)


class SessionDDPG(_Noisy, DDPG):
    """DDPG of the session."""

    def synchronise_gradients(self) -> None:
        """Average the gradients of the critic, and those of the policy."""
        self.average_together(self.critic_optimizer, self.critic)
        self.average_together(self.policy_optimizer, self.policy)


class _QNetwork(_Counting):
    """DQN or DDQN of the session."""

    actor = "q_network"
    q_network: Model
    optimizer: torch.optim.Optimizer

    def synchronise_gradients(self) -> None:
        """Average the gradients of the Q-network."""
        self.average_together(self.optimizer, self.q_network)


class SessionDQN(_QNetwork, DQN):
    """DQN of the session."""


class SessionDDQN(_QNetwork, DDQN):
    """DDQN of the session."""
