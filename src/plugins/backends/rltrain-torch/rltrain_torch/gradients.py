"""Gradient sync `flat`, and the function with which torch adapters use any gradient sync."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rltrain import hookimpl
from rltrain.session import Session
from rltrain.types import GradientSync, ProcessGroup

__all__ = ["Bucket", "FlatGradientSync", "FlatSync", "check_alone", "check_count", "synchronize"]

_LARGE = 1 << 20
"""Elements from which a buffer is large: 4 MiB of float32 do not stay in a core's own caches."""


def synchronize(
    sync: GradientSync, parameters: Sequence[torch.Tensor], extras: Sequence[torch.Tensor] = ()
) -> list[torch.Tensor] | None:
    """Replace the gradients of `parameters` by their averages over ranks. Collective.

    Call it between `backward` and clipping.

    Args:
        sync: a gradient sync created for the same parameters and extras, in the same order.
        parameters: the parameters. A `.grad` that is None on every rank stays None. If this update
            is to be left out, all become None: then the optimizer changes nothing.
        extras: tensors of shape () to average in the same collective.

    Returns:
        A list with the averages of the extras, in their order, which the next call overwrites; None
        if there are none, or if this update is to be left out.
    """
    averaged = sync([*(parameter.grad for parameter in parameters), *extras])
    if averaged is None:
        for parameter in parameters:
            parameter.grad = None
        return None
    count = len(parameters)
    for parameter, gradient in zip(parameters, averaged[:count], strict=True):
        parameter.grad = gradient
    return list(averaged[count:]) or None


def check_alone(
    optimizer: torch.optim.Optimizer,
    sync: GradientSync,
    parameters: Sequence[torch.Tensor],
    extras: Sequence[torch.Tensor] = (),
) -> None:
    """Call a gradient sync before each step, for a library that calls none on one rank.

    What `--on-nonfinite` promises holds there, too: the sync checks the gradients.

    Args:
        optimizer: steps the parameters.
        sync: as in `synchronize`.
        parameters: as in `synchronize`.
        extras: as in `synchronize`.
    """

    def before_step(*arguments: object) -> None:
        synchronize(sync, parameters, extras)

    optimizer.register_step_pre_hook(before_step)


class FlatGradientSync:
    """The plugin: creates a `FlatSync` per optimizer."""

    @hookimpl
    def rltrain_gradient_sync(
        self, session: Session, parameters: Sequence[torch.Tensor]
    ) -> GradientSync:
        """Return the gradient sync; the parameters may have several dtypes."""
        return FlatSync(session.group, parameters)


class FlatSync:
    """Averages all gradients of an optimizer with one all-reduce per dtype.

    The gradients are copied into a persistent buffer, and views of it are returned: no copy back,
    and no allocation in a step. At the buffer's end there is one flag per parameter; their sum
    counts the ranks that have a gradient. A rank without one contributes zeros, so the gradients
    of all ranks stay aligned even if only some of them took a branch of the model.
    """

    def __init__(self, group: ProcessGroup, parameters: Sequence[torch.Tensor]) -> None:
        self._group = group
        self._count = len(parameters)
        by_dtype: dict[torch.dtype, list[int]] = {}
        for index, parameter in enumerate(parameters):
            by_dtype.setdefault(parameter.dtype, []).append(index)
        self._buckets = [
            Bucket(indices, [parameters[index] for index in indices], dtype)
            for dtype, indices in by_dtype.items()
        ]

    def __call__(self, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the averages, as views of buffers that the next call overwrites."""
        check_count(gradients, self._count)
        if self._group.world_size == 1:
            return list(gradients)
        averaged: list[torch.Tensor | None] = [None] * self._count
        ranks = self._group.world_size
        for bucket in self._buckets:
            at_once = bucket.is_large and _is_power_of_two(ranks)
            bucket.reduce(self._group, gradients, averaged, 1 / ranks if at_once else 1.0)
            if not at_once:
                bucket.divide(ranks)
        return averaged


def check_count(gradients: Sequence[torch.Tensor | None], count: int) -> None:
    """Check that there is a gradient or None for each parameter."""
    if len(gradients) != count:
        raise ValueError(
            f"{len(gradients)} gradients were given; the sync was created for {count} parameters."
        )


def _is_power_of_two(ranks: int) -> bool:
    """Return whether to multiply by 1 / ranks is as exact as to divide."""
    return ranks & (ranks - 1) == 0


class Bucket:
    """Parameters whose gradients are summed in one collective.

    Attributes:
        indices: the parameters' numbers among all of the optimizer.
        buffer: the gradients, and after them a flag for each parameter.
        is_large: whether it takes less time to multiply each gradient while it is copied, than to
            copy all in one call and to divide all in another.
    """

    def __init__(
        self, indices: list[int], parameters: list[torch.Tensor], dtype: torch.dtype
    ) -> None:
        """Make the buffer.

        Args:
            indices: see above.
            parameters: as many parameters.
            dtype: in which their gradients are sent.
        """
        sizes = [parameter.numel() for parameter in parameters]
        self.indices = indices
        device = parameters[0].device
        self.buffer = torch.zeros(sum(sizes) + len(sizes), dtype=dtype, device=device)
        *parts, self._flags = torch.split(self.buffer, [*sizes, len(sizes)])
        self._ones = torch.ones_like(self._flags)
        self.is_large = device.type == "cpu" and self.buffer.numel() >= _LARGE
        self._views = [
            part.view(parameter.shape) for part, parameter in zip(parts, parameters, strict=True)
        ]
        self._parts = [*self._views, self._flags]

    def reduce(
        self,
        group: ProcessGroup,
        gradients: Sequence[torch.Tensor | None],
        sums: list[torch.Tensor | None],
        scale: float = 1.0,
    ) -> None:
        """Put the sums of this bucket's gradients over ranks into `sums`: views. Collective.

        Args:
            group: the ranks.
            gradients: of all parameters of the optimizer.
            sums: the same, where each bucket puts its own.
            scale: by what to multiply each gradient before.
        """
        self.fill(gradients, scale)
        reduced = group.all_reduce(self.buffer, op="sum")
        if reduced is not self.buffer:
            self.buffer.copy_(reduced)
        self.read(gradients, sums)

    @torch.no_grad()
    def fill(self, gradients: Sequence[torch.Tensor | None], scale: float = 1.0) -> None:
        """Copy this bucket's gradients into the buffer, and set the flags; see `reduce`."""
        new: list[torch.Tensor] = []
        missing = []
        for position, index in enumerate(self.indices):
            gradient = gradients[index]
            if gradient is None:
                missing.append(position)
                gradient = self._views[position].zero_()
            new.append(gradient)
        if scale == 1:
            torch._foreach_copy_(self._parts, [*new, self._ones])
        else:
            self._flags.copy_(self._ones)
            for view, gradient in zip(self._views, new, strict=True):
                torch.mul(gradient, scale, out=view)
        for position in missing:
            self._flags[position] = 0

    def divide(self, ranks: int) -> None:
        """Make averages of the sums, in place."""
        if _is_power_of_two(ranks):
            self.buffer.mul_(1 / ranks)  # Takes less time.
        else:
            self.buffer.div_(ranks)

    def read(
        self, gradients: Sequence[torch.Tensor | None], sums: list[torch.Tensor | None]
    ) -> None:
        """Put what the buffer holds after its collective into `sums`; see `reduce`."""
        for position, (index, view) in enumerate(zip(self.indices, self._views, strict=True)):
            # Reading a flag waits for the device. Only a rank that lacks a gradient has to do so.
            is_absent = gradients[index] is None and not self._flags[position].item()
            sums[index] = None if is_absent else view

    def owns(self, gradient: torch.Tensor | None) -> bool:
        """Return whether a gradient is one of the sums that this bucket has returned."""
        return any(gradient is view for view in self._views)
