"""Gradient sync `flat`, and the one line by which a torch adapter uses any gradient sync."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rltrain import hookimpl
from rltrain.session import Session
from rltrain.types import GradientSync, ProcessGroup

__all__ = ["FlatGradientSync", "FlatSync", "synchronise"]


def synchronise(sync: GradientSync, parameters: Sequence[torch.Tensor]) -> None:
    """Replace the gradients of `parameters` by their averages over ranks.

    Call it between `backward` and clipping.

    Args:
        sync: made over the same parameters, in the same order.
        parameters: whose `.grad` is read and set; None is kept where it is None on every rank.
    """
    averaged = sync([parameter.grad for parameter in parameters])
    for parameter, gradient in zip(parameters, averaged, strict=True):
        parameter.grad = gradient


class FlatGradientSync:
    """The plugin: makes a `FlatSync` an optimiser."""

    @hookimpl
    def rltrain_gradient_sync(
        self, session: Session, parameters: Sequence[torch.Tensor]
    ) -> GradientSync:
        """Make the sync; the parameters may be of several dtypes."""
        return FlatSync(session.group, parameters)


class FlatSync:
    """Averages all gradients of an optimiser with one all-reduce for each dtype.

    The gradients are copied into one kept buffer, and views of it are handed back: no copy back,
    and no memory taken in a step. One flag for each parameter travels at the buffer's end, and
    counts the ranks that have a gradient: a rank without one contributes zeros, so that a branch
    which only some ranks took cannot shift the others' gradients against each other.
    """

    def __init__(self, group: ProcessGroup, parameters: Sequence[torch.Tensor]) -> None:
        self._group = group
        self._count = len(parameters)
        by_dtype: dict[torch.dtype, list[int]] = {}
        for index, parameter in enumerate(parameters):
            by_dtype.setdefault(parameter.dtype, []).append(index)
        self._buckets = [
            _Bucket(indices, [parameters[index] for index in indices])
            for indices in by_dtype.values()
        ]

    def __call__(self, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the averages, as views of kept buffers that the next call overwrites."""
        if len(gradients) != self._count:
            raise ValueError(
                f"{len(gradients)} gradients were given; the sync was made over {self._count} "
                "parameters."
            )
        if self._group.world_size == 1:
            return list(gradients)
        averaged: list[torch.Tensor | None] = [None] * self._count
        for bucket in self._buckets:
            bucket.reduce(self._group, gradients, averaged)
        return averaged


class _Bucket:
    """The parameters of one dtype, with their buffer."""

    def __init__(self, indices: list[int], parameters: list[torch.Tensor]) -> None:
        first = parameters[0]
        sizes = [parameter.numel() for parameter in parameters]
        self._indices = indices
        self._buffer = torch.zeros(sum(sizes) + len(sizes), dtype=first.dtype, device=first.device)
        *parts, self._flags = torch.split(self._buffer, [*sizes, len(sizes)])
        self._views = [
            part.view(parameter.shape) for part, parameter in zip(parts, parameters, strict=True)
        ]

    @torch.no_grad()
    def reduce(
        self,
        group: ProcessGroup,
        gradients: Sequence[torch.Tensor | None],
        averaged: list[torch.Tensor | None],
    ) -> None:
        """Average this bucket's gradients into `averaged`."""
        mine = [gradients[index] for index in self._indices]
        views, given = [], []
        for view, gradient in zip(self._views, mine, strict=True):
            if gradient is not None and gradient is not view:
                views.append(view)
                given.append(gradient)
        if given:
            torch._foreach_copy_(views, given)
        self._flags.fill_(1)
        absent = [place for place, gradient in enumerate(mine) if gradient is None]
        for place in absent:
            self._views[place].zero_()
            self._flags[place] = 0
        reduced = group.all_reduce(self._buffer, op="sum")
        if reduced is not self._buffer:
            self._buffer.copy_(reduced)
        self._buffer.div_(group.world_size)
        # Only a rank that lacks a gradient must ask whether others had one: no other waits.
        nowhere = {place for place in absent if not self._flags[place].item()}
        for place, index in enumerate(self._indices):
            averaged[index] = None if place in nowhere else self._views[place]
