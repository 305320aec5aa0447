"""rl_games' asymmetric critic on several ranks. It is a network with its own optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rltrain.session import Session
from rltrain_rl_games.gradients import average_before_step
from rltrain_rl_games.normalizer import PendingBatches
from rltrain_torch.optimizers import watch_optimizer

_COUNTERS = ("lr", "epoch_num", "frame")


class CentralValue:
    """Manages the `CentralValueTrain` that an agent has created.

    Args:
        net: the agent's network; its normalizers may have been replaced.
        writer: receives its scalars.
    """

    def __init__(self, net: Any, writer: Any) -> None:
        self.net = net
        net.writter = writer  # Spelled so in rl_games.

    def connect(self, session: Session) -> None:
        """Broadcast the network from rank 0, and average its gradients. Collective."""
        net = self.net
        session.wrap_model(net.model, "central value")
        watch_optimizer(session, net.optimizer, "central value optimizer")
        clips, net.truncate_grads = net.truncate_grads, False
        average_before_step(session, net.optimizer, net.grad_norm if clips else None)

    def pending_batches(self, states: torch.Tensor) -> Sequence[PendingBatches]:
        """Return the batches that its normalizer will get, from states of shape (B, ...)."""
        if not self.net.normalize_input:
            return []
        batches = torch.split(states, self.net.dataset.minibatch_size)
        return [PendingBatches(self.net.model.running_mean_std, batches, self.net.mini_epoch)]

    def common_state(self) -> dict[str, Any]:
        """Return the state that is equal on all ranks and missing in rl_games' checkpoint."""
        return {name: getattr(self.net, name) for name in _COUNTERS}

    def set_common_state(self, state: dict[str, Any]) -> None:
        """Restore what `common_state` returned."""
        for name in _COUNTERS:
            setattr(self.net, name, state[name])

    def rank_state(self) -> list[torch.Tensor]:
        """Return its recurrent states."""
        return list(self.net.rnn_states) if self.net.is_rnn else []

    def set_rank_state(self, states: list[torch.Tensor]) -> None:
        """Restore what `rank_state` returned."""
        for current, saved in zip(self.net.rnn_states or [], states, strict=True):
            current.copy_(saved)
