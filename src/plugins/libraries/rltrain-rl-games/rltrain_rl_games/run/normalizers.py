"""rl_games' normalizers with the statistics of all ranks, for one collective per update."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd

from rltrain.types import ProcessGroup
from rltrain_rl_games.run.upstream import GroupsMeanStd
from rltrain_torch.moments import Moments, pool_moments


class PooledMeanStd(RunningMeanStd):
    """rl_games' normalizer, which updates with the moments of all ranks' data.

    Its state is equal on all ranks, and equal to that of one rank with all the data. It has the
    names that rl_games uses, so that rl_games can load the checkpoints.

    The moments of a whole update are pooled in one collective, before rl_games normalizes the first
    batch: `pool_pending` sets the batches that rl_games will pass, with their moments.
    """

    pending: deque[tuple[torch.Tensor, Moments]]
    """The batches of the next update, in order, each with its moments over all ranks."""

    running_mean: torch.Tensor
    running_var: torch.Tensor
    count: torch.Tensor
    training: bool

    def __init__(self, normalizer: Any) -> None:
        """Copy settings and state of the normalizer that rl_games created."""
        super().__init__(normalizer.insize, normalizer.epsilon, norm_only=normalizer.norm_only)
        self.load_state_dict(normalizer.state_dict())
        self.to(normalizer.running_mean.device)
        self.pending = deque()

    def forward(
        self, input: torch.Tensor, denorm: bool = False, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Normalize data of shape (B, ...). In training mode, update the statistics first."""
        is_training = self.training
        if is_training:
            self._update(input)
        self.training = False  # The base class would update with this rank's data alone.
        try:
            normalized: torch.Tensor = super().forward(input, denorm, mask)
        finally:
            self.training = is_training
        return normalized

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @torch.no_grad()
    def _update(self, data: torch.Tensor) -> None:
        """Merge the moments of the next pending batch into the running statistics."""
        if not self.pending or not _is_same(data, self.pending[0][0]):
            raise RuntimeError(
                f"rl_games normalizes a batch of shape {tuple(data.shape)} whose moments were not "
                "pooled over ranks: it is not the next batch that the adapter expected."
            )
        _, moments = self.pending.popleft()
        self.running_mean, self.running_var, self.count = self._update_mean_var_count_from_moments(
            self.running_mean,
            self.running_var,
            self.count,
            moments.mean,
            moments.variance,
            moments.count,
        )


@dataclass(frozen=True)
class PendingBatches:
    """The batches that one normalizer will get in the next update."""

    normalizer: PooledMeanStd
    batches: Sequence[torch.Tensor]
    """In order, each of shape (B, ...). uint8 images are passed before rl_games converts them to
    float32 between 0 and 1."""
    repeats: int = 1
    """How many times the whole sequence is passed."""


def pool_pending(
    group: ProcessGroup, pending: Sequence[PendingBatches], others: Sequence[torch.Tensor] = ()
) -> list[Moments]:
    """Pool the moments of everything that an update normalizes, in one collective.

    The normalizers of `pending` receive those of their batches. Those of `others`, batches of shape
    (B, ...) which the caller normalizes, are returned.
    """
    batches: list[tuple[torch.Tensor, torch.Tensor | None]] = [(batch, None) for batch in others]
    for item in pending:
        mean = item.normalizer.running_mean
        batches += [(batch, mean / _scale(batch)) for batch in item.batches]
    pooled = iter(pool_moments(group, batches))
    moments_of_others = [next(pooled) for _ in others]
    for item in pending:
        moments = [next(pooled).scale(_scale(batch)).usable() for batch in item.batches]
        item.normalizer.pending = deque([*zip(item.batches, moments, strict=True)] * item.repeats)
    return moments_of_others


def replace_normalizers(model: Any) -> None:
    """Replace the normalizers of an rl_games model by pooled ones."""
    for name in ("running_mean_std", "value_mean_std"):
        normalizer = getattr(model, name, None)
        if isinstance(normalizer, GroupsMeanStd):
            vectors = normalizer.running_mean_std
            for group, part in vectors.items():
                vectors[group] = PooledMeanStd(part)
        elif normalizer is not None:
            setattr(model, name, PooledMeanStd(normalizer))


def observation_batches(
    normalizer: Any, observations: Any, rows: int, repeats: int
) -> list[PendingBatches]:
    """Return the mini-batches that a pooled normalizer of observations will get.

    The observations have the shape (B, ...), or are a mapping of such arrays by group; a mini-batch
    has `rows` of them, and there are `repeats` passes over the data.
    """
    if not isinstance(normalizer, GroupsMeanStd):
        return [PendingBatches(normalizer, observations.split(rows), repeats)]
    parts: Iterable[tuple[str, Any]] = normalizer.running_mean_std.items()
    return [PendingBatches(part, observations[group].split(rows), repeats) for group, part in parts]


def _scale(batch: torch.Tensor) -> float:
    """Return the factor by which rl_games multiplies this batch before it normalizes it."""
    return 1 / 255 if batch.dtype == torch.uint8 else 1.0


def _is_same(data: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether `data` is the expected tensor, or a copy of it in another dtype."""
    if data.shape != expected.shape:
        return False
    return data.dtype != expected.dtype or data.data_ptr() == expected.data_ptr()
