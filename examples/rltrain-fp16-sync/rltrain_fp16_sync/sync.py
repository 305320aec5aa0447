"""Gradient sync `fp16`: half the bytes a step, and what rounding loses is sent later."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rltrain import hookimpl
from rltrain.session import Session
from rltrain.types import GradientSync, ProcessGroup

__all__ = ["LIMIT", "HalfGradientSync", "HalfSync"]

LIMIT = 2.0**15
"""The greatest gradient that is sent. float16 ends at 65504; half of it leaves room for the
rounding of sums."""


class HalfGradientSync:
    """The plugin: makes a `HalfSync` an optimiser."""

    def __init__(self) -> None:
        self._syncs: list[HalfSync] = []

    @hookimpl
    def rltrain_gradient_sync(
        self, session: Session, parameters: Sequence[torch.Tensor]
    ) -> GradientSync:
        """Make the sync; the parameters may be of several dtypes."""
        self._syncs.append(HalfSync(session.group, parameters))
        return self._syncs[-1]

    @hookimpl
    def rltrain_save_state(self) -> list[torch.Tensor]:
        """Return what this rank's syncs still owe: a resumed run goes on with it."""
        return [sync.owed for sync in self._syncs]

    @hookimpl
    def rltrain_load_state(self, state: list[torch.Tensor]) -> None:
        """Go on owing what was owed."""
        for sync, owed in zip(self._syncs, state, strict=True):
            sync.owed.copy_(owed)


class HalfSync:
    """Averages all gradients of an optimiser with one all-reduce in float16.

    Each rank sends its share of the mean, its gradient divided by the number of ranks, so that the
    sum of what is sent cannot leave float16's range. What rounding takes from it is kept, and added
    to the rank's next gradient (error feedback): over many steps the averages add up to those of
    the gradients, also where one step's is too small for float16.

    - A finite gradient beyond `LIMIT` is cut off there. A scale would have to be common to all
      ranks, at the price of a second collective; and what is cut off is not kept, since it would
      drown the gradients of the steps to come. Libraries clip the norm to far less anyway.
    - NaN and infinity are sent as they are: a run that blows up must be seen to, on every rank.
      They leave nothing behind.

    Attributes:
        owed: what rounding has kept back on this rank, float32, one number for each parameter's.
    """

    def __init__(self, group: ProcessGroup, parameters: Sequence[torch.Tensor]) -> None:
        self._group = group
        self._dtypes = [parameter.dtype for parameter in parameters]
        sizes = [parameter.numel() for parameter in parameters]
        shapes = [parameter.shape for parameter in parameters]

        def views(flat: torch.Tensor) -> list[torch.Tensor]:
            parts = torch.split(flat, sizes)
            return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

        device = parameters[0].device
        self.owed = torch.zeros(sum(sizes), device=device)
        self._mean = torch.zeros(sum(sizes), device=device)
        # At its end one flag for each parameter counts the ranks that have a gradient.
        self._lengths = [sum(sizes), len(sizes)]
        self._buffer = torch.zeros(sum(self._lengths), dtype=torch.float16, device=device)
        self._sent, self._flags = torch.split(self._buffer, self._lengths)
        self._errors, self._means, self._shares = map(views, (self.owed, self._mean, self._sent))

    @torch.no_grad()
    def __call__(self, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the averages; of float32 parameters as views that the next call overwrites."""
        if len(gradients) != len(self._dtypes):
            raise ValueError(
                f"{len(gradients)} gradients were given; the sync was made over "
                f"{len(self._dtypes)} parameters."
            )
        if self._group.world_size == 1:
            return list(gradients)
        absent = [index for index, gradient in enumerate(gradients) if gradient is None]
        self._compress(gradients, absent)
        reduced = self._group.all_reduce(self._buffer, op="sum")
        total, flags = torch.split(reduced, self._lengths)
        self._mean.copy_(total)
        # Only a rank that lacks a gradient must ask whether others had one: no other waits.
        nowhere = {index for index in absent if not flags[index].item()}
        return [
            None if index in nowhere else mean.to(dtype)
            for index, (mean, dtype) in enumerate(zip(self._means, self._dtypes, strict=True))
        ]

    def _compress(self, gradients: Sequence[torch.Tensor | None], absent: Sequence[int]) -> None:
        """Fill the buffer with this rank's share of the mean, and keep what that loses."""
        kept = [self._errors[index].clone() for index in absent]
        for error, gradient in zip(self._errors, gradients, strict=True):
            if gradient is not None:
                error.add_(gradient)
        wanted = self.owed.where(self.owed.isinf(), self.owed.clamp(-LIMIT, LIMIT))
        ranks = self._group.world_size
        self._sent.copy_(wanted / ranks)
        torch.sub(wanted, self._sent.float() * ranks, out=self.owed)
        self.owed.nan_to_num_(nan=0.0)
        self._flags.fill_(1)
        for index, error in zip(absent, kept, strict=True):
            # If every rank lacks it nobody takes what is sent: what it was owed stays owed.
            self._errors[index].copy_(error)
            self._shares[index].zero_()
            self._flags[index] = 0
