"""The adapted agents of skrl for torch. Each is called `Session` and as skrl's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from skrl.agents.torch.a2c import A2C
from skrl.agents.torch.ddpg import DDPG
from skrl.agents.torch.ddqn import DDQN
from skrl.agents.torch.dqn import DQN
from skrl.agents.torch.ppo import PPO
from skrl.agents.torch.rpo import RPO
from skrl.agents.torch.sac import SAC
from skrl.agents.torch.td3 import TD3
from skrl.resources.noises.torch import Noise

from rltrain.types import ProcessGroup
from rltrain_skrl.run import algorithms
from rltrain_skrl.run.torch.agents import TorchAgent
from rltrain_skrl.run.torch.memory import ReplayMemory, RolloutMemory
from rltrain_torch.gradients import synchronize


class SharedThreshold(float):
    """skrl's `kl_threshold` on several ranks; a comparison with it is collective.

    torch calls `__torch_function__` of either operand of a comparison, which lets this one average
    the divergence first.
    """

    group: ProcessGroup

    def __new__(cls, value: float, group: ProcessGroup) -> SharedThreshold:
        """Compare with the mean over the ranks of `group`."""
        threshold = super().__new__(cls, value)
        threshold.group = group
        return threshold

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compare a divergence with the threshold."""
        divergence, threshold = args
        mean = threshold.group.all_reduce(divergence, "mean")
        return func(mean, float(threshold), **(kwargs or {}))


class _OnPolicy(algorithms.OnPolicy, TorchAgent):
    memory_class = RolloutMemory
    threshold_class = SharedThreshold


class SessionPPO(algorithms.EarlyStopping, _OnPolicy, PPO):
    """PPO of the session."""


class SessionRPO(algorithms.EarlyStopping, _OnPolicy, RPO):
    """RPO of the session."""


class SessionA2C(_OnPolicy, A2C):
    """A2C of the session."""


class _OffPolicy(algorithms.OffPolicy, TorchAgent):
    memory_class = ReplayMemory
    noise_class = Noise
    array_class = torch.Tensor

    def _to_host(self, array: torch.Tensor) -> np.ndarray:
        return array.cpu().numpy()

    def _to_device(self, array: np.ndarray, device: torch.device) -> torch.Tensor:
        return torch.as_tensor(array, device=device)


class EntropyCoefficient(torch.nn.Module):
    """SAC's coefficient as a module, to be broadcast and saved: skrl does neither.

    Attributes:
        log: its logarithm, shape (1,).
    """

    def __init__(self, log: torch.Tensor) -> None:
        """Start with the value of skrl's own tensor."""
        super().__init__()
        self.log = torch.nn.Parameter(log.detach().clone())


class SessionSAC(algorithms.Sac, _OffPolicy, SAC):
    """SAC of the session, its entropy coefficient learned from the data of all ranks."""

    log_entropy_coefficient: torch.Tensor
    entropy_optimizer: torch.optim.Optimizer

    def _unsaved(self) -> dict[str, Any]:
        """Add the coefficient; the parameter of a wrapped module replaces skrl's tensor."""
        parts = super()._unsaved()
        if self.cfg.learn_entropy:
            own: EntropyCoefficient = self._session.wrap_model(
                EntropyCoefficient(self.log_entropy_coefficient), "entropy_coefficient"
            )
            self.log_entropy_coefficient = own.log
            self.entropy_optimizer.param_groups[0]["params"] = [own.log]
            parts["entropy_coefficient"] = own
        return parts

    def synchronize_gradients(self) -> None:
        """Average the gradients of the entropy coefficient, too."""
        super().synchronize_gradients()
        if self.cfg.learn_entropy:
            log = self.log_entropy_coefficient
            sync = self._session.gradient_sync([log], may_overflow=self.scaler.is_enabled())
            # Between this gradient and the step, skrl calls no method to override.
            average = functools.partial(synchronize, sync, [log])
            log.register_post_accumulate_grad_hook(lambda _: average())  # type: ignore[no-untyped-call]

    def resume(self, path: Path) -> None:
        """Load a checkpoint of skrl. Every rank does; see `OffPolicy.resume`."""
        super().resume(path)
        if self.cfg.learn_entropy and self.entropy_optimizer.state:
            self._entropy_coefficient = torch.exp(self.log_entropy_coefficient.detach())


class SessionTD3(algorithms.ActionNoise, _OffPolicy, TD3):
    """TD3 of the session."""


class SessionDDPG(algorithms.Ddpg, _OffPolicy, DDPG):
    """DDPG of the session."""


class SessionDQN(algorithms.QNetwork, _OffPolicy, DQN):
    """DQN of the session."""


class SessionDDQN(algorithms.QNetwork, _OffPolicy, DDQN):
    """DDQN of the session."""
