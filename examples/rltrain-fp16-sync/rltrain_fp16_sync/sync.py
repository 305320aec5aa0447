"""Gradient sync `fp16`: half the bytes per step; rounding errors are sent in later steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rltrain import hookimpl
from rltrain.session import Session
from rltrain.types import GradientSync, ProcessGroup

__all__ = ["LIMIT", "HalfGradientSync", "HalfSync"]

LIMIT = 2.0**15
"""The largest gradient that is sent. float16 ends at 65504; half of it leaves room for rounding in
sums."""


class HalfGradientSync:
    """The plugin: makes one `HalfSync` per optimizer."""

    def __init__(self) -> None:
        self._syncs: list[HalfSync] = []

    @hookimpl
    def rltrain_gradient_sync(
        self, session: Session, parameters: Sequence[torch.Tensor], extras: int
    ) -> GradientSync:
        """Make the sync; the parameters may have several dtypes."""
        count = len(parameters) - extras
        sync = HalfSync(session.group, parameters[:count])
        self._syncs.append(sync)

        def average(gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
            numbers = [x for x in gradients[count:] if x is not None]
            return [*sync(gradients[:count]), *_exact_means(session.group, numbers)]

        return average if extras else sync

    @hookimpl
    def rltrain_save_state(self) -> list[torch.Tensor]:
        """Return the errors that this rank's syncs keep, for a resumed run."""
        return [sync.errors for sync in self._syncs]

    @hookimpl
    def rltrain_load_state(self, state: list[torch.Tensor]) -> None:
        """Restore the kept errors."""
        for sync, errors in zip(self._syncs, state, strict=True):
            sync.errors.copy_(errors)


def _exact_means(group: ProcessGroup, numbers: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the means of numbers over ranks, in a small collective of their own."""
    return list(group.all_reduce(torch.stack(list(numbers)), op="mean"))


class HalfSync:
    """Averages all gradients of an optimizer with one all-reduce in float16.

    Each rank sends its gradient divided by the number of ranks, so that the sum stays in float16's
    range. The rounding error is kept, and added to the rank's next gradient (error feedback): over
    many steps the averages add up to those of the true gradients, even if a single step's gradient
    is too small for float16.

    - A finite gradient beyond `LIMIT` is clipped to it. A scale would have to be the same on all
      ranks, which costs a second collective. The excess is not kept as an error, because it would
      dominate the next steps' gradients. Libraries clip the norm to far less anyway.
    - NaN and infinity are sent unchanged, so that a diverged run is visible on every rank. They are
      not added to the kept errors.

    Attributes:
        errors: this rank's kept rounding errors, float32, one for each element of the parameters.
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
        self.errors = torch.zeros(sum(sizes), device=device)
        self._mean = torch.zeros(sum(sizes), device=device)
        # The buffer ends with a flag for each parameter; summed, it counts ranks with a gradient.
        self._lengths = [sum(sizes), len(sizes)]
        self._buffer = torch.zeros(sum(self._lengths), dtype=torch.float16, device=device)
        self._sent, self._flags = torch.split(self._buffer, self._lengths)
        self._errors, self._means, self._shares = map(views, (self.errors, self._mean, self._sent))

    @torch.no_grad()
    def __call__(self, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the averages; float32 ones are views that the next call overwrites."""
        if len(gradients) != len(self._dtypes):
            raise ValueError(
                f"{len(gradients)} gradients were given, but the sync was made for "
                f"{len(self._dtypes)} parameters. Give a gradient or None for each parameter."
            )
        if self._group.world_size == 1:
            return list(gradients)
        absent = [index for index, gradient in enumerate(gradients) if gradient is None]
        self._compress(gradients, absent)
        reduced = self._group.all_reduce(self._buffer, op="sum")
        total, flags = torch.split(reduced, self._lengths)
        self._mean.copy_(total)
        # `item` waits for the device, so read the flags of absent gradients only.
        nowhere = {index for index in absent if not flags[index].item()}
        return [
            None if index in nowhere else mean.to(dtype)
            for index, (mean, dtype) in enumerate(zip(self._means, self._dtypes, strict=True))
        ]

    def _compress(self, gradients: Sequence[torch.Tensor | None], absent: Sequence[int]) -> None:
        """Fill the buffer with this rank's share of the mean, and keep the rounding errors."""
        kept = [self._errors[index].clone() for index in absent]
        for error, gradient in zip(self._errors, gradients, strict=True):
            if gradient is not None:
                error.add_(gradient)
        wanted = self.errors.where(self.errors.isinf(), self.errors.clamp(-LIMIT, LIMIT))
        ranks = self._group.world_size
        self._sent.copy_(wanted / ranks)
        torch.sub(wanted, self._sent.float() * ranks, out=self.errors)
        self.errors.nan_to_num_(nan=0.0)
        self._flags.fill_(1)
        for index, error in zip(absent, kept, strict=True):
            # Keep the error: if every rank lacks this gradient, what is sent is dropped.
            self._errors[index].copy_(error)
            self._shares[index].zero_()
            self._flags[index] = 0
