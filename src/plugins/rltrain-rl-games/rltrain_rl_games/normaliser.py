"""rl_games' running moments, pooled over ranks."""

from __future__ import annotations

from typing import Any

import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd

from rltrain.types import ProcessGroup

__all__ = ["PooledMeanStd", "pool_normalisers"]


class PooledMeanStd(RunningMeanStd):
    """rl_games' normaliser, updated with the moments of all ranks' data before it is used.

    Its state is equal on all ranks, and what one rank with all the data would have. It is kept
    under the same names, so that checkpoints stay rl_games' own.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor
    count: torch.Tensor
    axis: list[int]
    training: bool

    def __init__(self, normaliser: Any, group: ProcessGroup) -> None:
        """Take the place of a normaliser that rl_games has made, with its state."""
        super().__init__(
            normaliser.insize, normaliser.epsilon, normaliser.per_channel, normaliser.norm_only
        )
        self.load_state_dict(normaliser.state_dict())
        self.to(normaliser.running_mean.device)
        self._group = group

    def forward(
        self, input: torch.Tensor, denorm: bool = False, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Normalise data of shape (B, ...); in training, update first, which is collective."""
        updates = self.training
        if updates:
            self._update(input)
        self.training = False  # The base class would update with this rank's data alone.
        try:
            normalised: torch.Tensor = super().forward(input, denorm, mask)
        finally:
            self.training = updates
        return normalised

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @torch.no_grad()
    def _update(self, data: torch.Tensor) -> None:
        """Merge the moments of every rank's batch into the running ones, in one collective.

        Moments are taken about the running mean, which is equal on all ranks: about zero, a
        variance that is small against the mean would be lost in rounding.
        """
        shift = data.mean(self.axis).double() - self.running_mean
        spread = data.var(self.axis, unbiased=False).double() + shift.square()
        # As in rl_games, the weight is the first dimension, also with moments per channel.
        size = torch.full_like(self.count, data.shape[0]).reshape(1)
        local = torch.cat([size, size * shift.reshape(-1), size * spread.reshape(-1)])
        pooled = self._group.all_reduce(local, "sum")
        size, (first, second) = pooled[0], pooled[1:].chunk(2)
        shift = (first / size).view_as(self.running_mean)
        variance = (second / size).view_as(self.running_var) - shift.square()
        self.running_mean, self.running_var, self.count = self._update_mean_var_count_from_moments(
            self.running_mean,
            self.running_var,
            self.count,
            self.running_mean + shift,
            variance,
            size,
        )


def pool_normalisers(model: Any, group: ProcessGroup) -> None:
    """Replace the normalisers of one of rl_games' models by pooled ones."""
    for name in ("running_mean_std", "value_mean_std"):
        normaliser = getattr(model, name, None)
        if normaliser is not None:
            setattr(model, name, PooledMeanStd(normaliser, group))
