"""rl_games' asymmetric critic, a network with an optimiser of its own, on several ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rltrain.session import Session
from rltrain_rl_games.checkpoints import on_host
from rltrain_rl_games.gradients import average_before_step
from rltrain_rl_games.normaliser import Expected
from rltrain_torch.optimizers import watch_optimizer

__all__ = ["CentralValue"]

_COUNTERS = ("lr", "epoch_num", "frame")


class CentralValue:
    """Looks after the `CentralValueTrain` that an agent has made.

    Args:
        net: the agent's; its normalisers may have been replaced.
        sink: where it is to write its scalars.
    """

    def __init__(self, net: Any, sink: Any) -> None:
        self.net = net
        net.writter = sink

    def join(self, session: Session) -> None:
        """Make the network common, and average its gradients. Collective."""
        net = self.net
        session.wrap_model(net.model, "central value")
        watch_optimizer(session, net.optimizer, "central value optimizer")
        clips, net.truncate_grads = net.truncate_grads, False
        average_before_step(session, net.optimizer, net.grad_norm if clips else None)

    def expected(self, states: torch.Tensor) -> Sequence[Expected]:
        """Return what its normaliser of observations will be given, from states (B, ...)."""
        if not self.net.normalize_input:
            return []
        batches = torch.split(states, self.net.dataset.minibatch_size)
        return [Expected(self.net.model.running_mean_std, batches, self.net.mini_epoch)]

    def common_state(self) -> dict[str, Any]:
        """Return what is equal on all ranks and not in rl_games' own checkpoint."""
        return {name: getattr(self.net, name) for name in _COUNTERS}

    def set_common_state(self, state: dict[str, Any]) -> None:
        """Take what `common_state` returned."""
        for name in _COUNTERS:
            setattr(self.net, name, state[name])

    def rank_state(self) -> list[Any]:
        """Return its recurrent states, in numpy."""
        return [on_host(state) for state in self.net.rnn_states] if self.net.is_rnn else []

    def set_rank_state(self, states: list[Any]) -> None:
        """Take what `rank_state` returned."""
        for mine, saved in zip(self.net.rnn_states or [], states, strict=True):
            mine.copy_(torch.from_numpy(saved))
