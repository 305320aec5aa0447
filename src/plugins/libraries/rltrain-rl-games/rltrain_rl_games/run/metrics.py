"""What an rl_games agent measures: scalars, what environments log, and episode meters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from rl_games.algos_torch.torch_ext import AverageMeter
from rl_games.common.algo_observer import AlgoObserver

from rltrain.types import ProcessGroup

_RECORDED_BY_CORE = ("rewards", "shaped_rewards", "episode_lengths", "info/epochs", "performance/")


class ScalarSink:
    """Replaces rl_games' tensorboardX writer, and collects the scalars of an epoch."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def add_scalar(self, tag: str, value: Any, step: Any = None) -> None:
        """Add a scalar, unless the core records it for every library."""
        if not tag.startswith(_RECORDED_BY_CORE):
            # Some values are arrays with one element.
            self._values[tag] = float(value.item() if hasattr(value, "item") else value)

    def add_mean(self, tag: str, total: float, count: int) -> None:
        """Add a mean as (sum, count): ranks may have different numbers of values."""
        self._values[tag] = (total, count)

    def pop(self) -> dict[str, Any]:
        """Return the scalars and clear them."""
        values, self._values = self._values, {}
        return values


class LogObserver(AlgoObserver):
    """Collects what the environment logs, without a loop over environments."""

    sink: ScalarSink
    limit = ""
    """The key of the option that has ended training; see `rltrain.session.Session.result`."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, list[Any]] = {}

    def process_infos(self, infos: dict[str, Any], done_indices: Any) -> None:
        """Collect the entries of one step."""
        for name, value in infos["log"].items():
            self._logged.setdefault(name, []).append(value)

    def after_print_stats(self, frame: int, epoch_num: int, total_time: float) -> None:
        """Pass the epoch's means to the sink."""
        for name, values in self._logged.items():
            means = torch.stack([torch.as_tensor(value).float().mean() for value in values])
            self.sink.add_mean(name, sum(means.tolist()), len(values))
        self._logged.clear()

    def after_clear_stats(self) -> None:
        """Do nothing: there is nothing to clear."""


class PooledMeter(AverageMeter):
    """Averages the episodes of all ranks, which are pooled once per epoch.

    rl_games selects its best checkpoint by its meters. Episodes are added step by step, as one rank
    with all environments adds them: what falls out of the meter's window depends on it.
    """

    def __init__(self, meter: AverageMeter, shape: tuple[int, ...]) -> None:
        """Replace a meter that has seen no episode, whose value has this shape."""
        super().__init__(shape, meter.max_size)
        self.to(meter.mean.device)
        self._pending: list[torch.Tensor] = []

    def update(self, values: torch.Tensor) -> None:
        """Keep the episodes that ended in a step, shape (episodes, *shape), until they are pooled.

        rl_games calls it in every step. It does not wait for the device.
        """
        total = values.double().sum(0).flatten()
        self._pending.append(torch.cat([total.new_full((1,), len(values)), total]))

    def pop_pending(self) -> torch.Tensor:
        """Return count and sum of this rank's new episodes, shape (steps, 1 + numel)."""
        none = self.mean.new_zeros((0, 1 + self.mean.numel()), dtype=torch.float64)
        pending, self._pending = self._pending, []
        return torch.stack(pending) if pending else none

    def add_pooled(self, pooled: np.ndarray) -> None:
        """Add the new episodes of all ranks: the sum over ranks of what `pop_pending` returned."""
        for count, *total in pooled:
            if count:
                mean = torch.tensor(total, dtype=torch.float64).div(count).to(self.mean)
                super().update(mean.view_as(self.mean).expand(int(count), *self.mean.shape))


def pool_meters(group: ProcessGroup, meters: Sequence[PooledMeter]) -> None:
    """Add the new episodes of all ranks to every meter, in one collective."""
    pending = [meter.pop_pending() for meter in meters]
    pooled = group.all_reduce(torch.cat(pending, 1), "sum").cpu().numpy()
    ends = np.cumsum([part.shape[1] for part in pending])[:-1]
    for meter, part in zip(meters, np.split(pooled, ends, axis=1), strict=True):
        meter.add_pooled(part)
