"""Gradient syncs `flat` and `bf16`, and how torch adapters use any gradient sync."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rltrain import hookimpl
from rltrain.session import Session
from rltrain.types import GradientSync, ProcessGroup

__all__ = ["Bf16GradientSync", "FlatGradientSync", "sync_before_step", "synchronize"]

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


def sync_before_step(
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


class Bf16GradientSync:
    """The plugin: creates a `Bf16Sync` per optimizer, and keeps their errors for a resumed run."""

    def __init__(self) -> None:
        self._syncs: list[Bf16Sync] = []

    @hookimpl
    def rltrain_gradient_sync(
        self, session: Session, parameters: Sequence[torch.Tensor], extras: int
    ) -> GradientSync:
        """Return the gradient sync; extras are averaged in full precision, by a second one."""
        count = len(parameters) - extras
        sync = Bf16Sync(session.group, parameters[:count])
        self._syncs.append(sync)
        if not extras:
            return sync
        exact = FlatSync(session.group, parameters[count:])

        def average(gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
            return [*sync(gradients[:count]), *exact(gradients[count:])]

        return average

    @hookimpl
    def rltrain_save_state(self) -> list[np.ndarray]:
        """Return what this rank's syncs have rounded off and not yet sent."""
        return [sync.errors.cpu().numpy() for sync in self._syncs]

    @hookimpl
    def rltrain_load_state(self, state: list[np.ndarray]) -> None:
        """Restore it."""
        for sync, errors in zip(self._syncs, state, strict=True):
            sync.errors.copy_(torch.from_numpy(errors))


class FlatSync:
    """Averages all gradients of an optimizer with one all-reduce per dtype."""

    def __init__(self, group: ProcessGroup, parameters: Sequence[torch.Tensor]) -> None:
        self._group = group
        self._count = len(parameters)
        by_dtype: dict[torch.dtype, list[int]] = {}
        for index, parameter in enumerate(parameters):
            by_dtype.setdefault(parameter.dtype, []).append(index)
        self._buckets = [
            _Bucket(indices, [parameters[index] for index in indices], dtype)
            for dtype, indices in by_dtype.items()
        ]

    def __call__(self, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the averages, as views of buffers that the next call overwrites."""
        _check_count(gradients, self._count)
        ranks = self._group.world_size
        if ranks == 1:
            return list(gradients)
        averaged: list[torch.Tensor | None] = [None] * self._count
        exact = ranks & (ranks - 1) == 0  # Then to multiply by 1 / ranks is as exact as to divide.
        for bucket in self._buckets:
            at_once = exact and bucket.is_large
            bucket.reduce(self._group, gradients, averaged, 1 / ranks if at_once else 1.0)
            if at_once:
                continue
            if exact:
                bucket.buffer.mul_(1 / ranks)  # Takes less time.
            else:
                bucket.buffer.div_(ranks)
        return averaged


class Bf16Sync:
    """Averages all gradients of an optimizer with one all-reduce in bfloat16.

    bfloat16 has the range of float32, and 8 bits of precision. A rank keeps what its gradient lost
    and adds it to its next one (error feedback, Seide et al. 2014, "1-Bit Stochastic Gradient
    Descent"): over many steps, the averages add up to those of the true gradients. The rounding of
    the sum itself, one part in 256 for each addition, belongs to no rank and is not corrected.

    NaN and infinity are sent as they are, and not kept. `errors` is what this rank has rounded off:
    float32, one for each element of the parameters.
    """

    def __init__(self, group: ProcessGroup, parameters: Sequence[torch.Tensor]) -> None:
        self._group, self._count = group, len(parameters)
        sizes = [parameter.numel() for parameter in parameters]
        device = parameters[0].device
        self.errors = torch.zeros(sum(sizes), device=device)
        sent = torch.zeros(sum(sizes), dtype=torch.bfloat16, device=device)
        shapes = [parameter.shape for parameter in parameters]
        self._errors, self._sent = (
            [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
            for parts in (torch.split(self.errors, sizes), torch.split(sent, sizes))
        )
        self._means = [torch.zeros_like(each, requires_grad=False) for each in parameters]
        self._bucket = _Bucket([*range(self._count)], [*parameters], torch.bfloat16)

    @torch.no_grad()
    def __call__(self, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the averages, in tensors that the next call overwrites."""
        _check_count(gradients, self._count)
        if self._group.world_size == 1:
            return list(gradients)
        sums: list[torch.Tensor | None] = [None] * self._count
        self._bucket.reduce(self._group, self._rounded(gradients), sums)
        means: list[torch.Tensor | None] = [
            None if total is None else mean for total, mean in zip(sums, self._means, strict=True)
        ]
        present = [mean for mean in means if mean is not None]
        if present:
            torch._foreach_copy_(present, [total for total in sums if total is not None])
            torch._foreach_div_(present, self._group.world_size)
        return means

    def _rounded(self, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return what to send, and keep the rest. The error of an absent gradient waits."""
        present = [index for index, gradient in enumerate(gradients) if gradient is not None]
        sent: list[torch.Tensor | None] = [None] * self._count
        if not present:
            return sent
        errors, rounded = ([each[i] for i in present] for each in (self._errors, self._sent))
        torch._foreach_add_(errors, [each for each in gradients if each is not None])
        torch._foreach_copy_(rounded, errors)
        torch._foreach_sub_(errors, rounded)
        self.errors.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        for index in present:
            sent[index] = self._sent[index]
        return sent


def _check_count(gradients: Sequence[torch.Tensor | None], count: int) -> None:
    """Check that there is a gradient or None for each parameter."""
    if len(gradients) != count:
        raise ValueError(
            f"{len(gradients)} gradients were given; the sync was created for {count} parameters."
        )


class _Bucket:
    """Parameters whose gradients are summed in one collective.

    The gradients are copied into a persistent buffer, and views of it are returned: no copy back,
    and no allocation in a step. At the buffer's end there is one flag per parameter; their sum
    counts the ranks that have a gradient. A rank without one contributes zeros, so the gradients
    of all ranks stay aligned even if only some of them took a branch of the model.

    If `is_large`, it takes less time to multiply each gradient while it is copied, than to copy all
    in one call and to divide all in another. `indices` are the parameters' numbers among all of the
    optimizer; their gradients are sent in `dtype`.
    """

    def __init__(
        self, indices: list[int], parameters: list[torch.Tensor], dtype: torch.dtype
    ) -> None:
        sizes = [parameter.numel() for parameter in parameters]
        self._indices = indices
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

        `gradients` and `sums` are of all parameters of the optimizer. Each gradient is multiplied
        by `scale` before.
        """
        self._fill(gradients, scale)
        reduced = group.all_reduce(self.buffer, op="sum")
        if reduced is not self.buffer:
            self.buffer.copy_(reduced)
        for position, (index, view) in enumerate(zip(self._indices, self._views, strict=True)):
            # Reading a flag waits for the device. Only a rank that lacks a gradient has to do so.
            is_absent = gradients[index] is None and not self._flags[position].item()
            sums[index] = None if is_absent else view

    @torch.no_grad()
    def _fill(self, gradients: Sequence[torch.Tensor | None], scale: float) -> None:
        """Copy this bucket's gradients into the buffer, and set the flags."""
        new: list[torch.Tensor] = []
        missing = []
        for position, index in enumerate(self._indices):
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
