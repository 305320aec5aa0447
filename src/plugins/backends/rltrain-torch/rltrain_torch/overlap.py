"""Gradient sync `overlap`: gradients are sent in parts, while the backward pass goes on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from rltrain import hookimpl
from rltrain.session import Session
from rltrain.types import GradientSync, ProcessGroup
from rltrain_torch.compat import destroy_without_gil
from rltrain_torch.gradients import Bucket, FlatSync, check_count
from rltrain_torch.group import TIMEOUT

PART = 1 << 20
"""Bytes of gradients from which they are sent, measured by benchmarks/overlap.py."""

Gradients = Sequence[torch.Tensor | None]


class OverlapGradientSync:
    """The plugin: creates an `OverlapSync` per optimizer."""

    @hookimpl
    def rltrain_gradient_sync(
        self, session: Session, parameters: Sequence[torch.Tensor], extras: int
    ) -> GradientSync:
        """Return the gradient sync; the parameters may have several dtypes."""
        return OverlapSync(session.group, parameters, extras)


class OverlapSync:
    """Averages gradients in parts, each with an all-reduce that begins when its last one is there.

    Parts are sent in the same order on all ranks, from the model's end to its beginning, as the
    backward pass makes them. The last part waits for the call. A model below `PART` has only that
    one, and is averaged as by `flat`.

    A gradient may change after it was sent: a second backward pass adds to it, or a step is left
    out and the next pass replaces it. A number in the last part tells all ranks if one of them
    had such a gradient. Then all parts are sent again, and from the next call on all are sent at
    the call: an optimizer that did this once does so again.
    """

    def __init__(
        self, group: ProcessGroup, parameters: Sequence[torch.Tensor], extras: int = 0
    ) -> None:
        """Watch the parameters' gradients. Collective.

        Args:
            group: the ranks. They are torch's default group too.
            parameters: the optimizer's, and after them arrays like the extras.
            extras: how many of the last arrays are no gradients, and come with the last part.
        """
        self._group, self._parameters = group, parameters
        count = len(parameters) - extras
        parts, last = _divided(parameters[:count])
        # Ranks may send at different times, so not between the other collectives of the run.
        own = _own_group() if group.world_size > 1 and parts else None
        self._parts = [_Part(indices, parameters, own) for indices in parts]
        self._last = [*last, *range(count, len(parameters))]
        self._has_changed = torch.zeros((), device=parameters[0].device)
        self._last_sync = FlatSync(group, [*(parameters[i] for i in self._last), self._has_changed])
        self._sent = 0
        self._begins_early = group.world_size > 1
        if self._begins_early:
            for part in self._parts:
                part.watch(self._send_complete)

    def __call__(self, gradients: Gradients) -> list[torch.Tensor | None]:
        """Return the averages, as views of buffers that the next call overwrites."""
        check_count(gradients, len(self._parameters))
        gradients = list(gradients)
        if self._group.world_size == 1:
            return gradients
        if self._begins_early:
            for part in self._parts:
                part.keep(gradients)  # They may be sent twice.
        for part in self._parts[self._sent :]:
            part.send(gradients)
        self._sent = 0
        self._has_changed.fill_(any(part.has_changed(gradients) for part in self._parts))
        *averages, changed = self._last_sync(
            [*(gradients[index] for index in self._last), self._has_changed]
        )
        averaged: list[torch.Tensor | None] = [None] * len(gradients)
        for index, average in zip(self._last, averages, strict=True):
            averaged[index] = average
        for part in self._parts:
            part.receive(gradients, averaged, self._group.world_size)
        if self._begins_early and self._parts and bool(changed):
            self._begins_early = False
            for part in self._parts:
                part.send(gradients)
                part.receive(gradients, averaged, self._group.world_size)
        return averaged

    def _send_complete(self) -> None:
        """Send the parts whose gradients are all there, in order."""
        while self._begins_early and self._sent < len(self._parts):
            part = self._parts[self._sent]
            if not part.is_complete:
                return
            part.send([parameter.grad for parameter in self._parameters])
            self._sent += 1


class _Part:
    """Gradients that are sent in one collective."""

    def __init__(
        self,
        indices: list[int],
        parameters: Sequence[torch.Tensor],
        group: dist.ProcessGroup | None,
    ) -> None:
        self._group = group
        self._parameters = [parameters[index] for index in indices]
        self._bucket = Bucket(indices, self._parameters, self._parameters[0].dtype)
        self._arrived: set[int] = set()
        self._given: list[tuple[torch.Tensor | None, int]] = []
        self._work: Any = None

    def watch(self, arrived: Callable[[], None]) -> None:
        """Call `arrived` after each gradient of a backward pass."""

        def note(index: int, _: torch.Tensor) -> None:
            self._arrived.add(index)
            arrived()

        for index, parameter in zip(self._bucket.indices, self._parameters, strict=True):
            if parameter.requires_grad and parameter.is_leaf:
                parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    functools.partial(note, index)
                )

    @property
    def is_complete(self) -> bool:
        """Whether a backward pass has made all gradients.

        Never if it adds to the averages of the last call: those are the buffer itself.
        """
        if len(self._arrived) < len(self._parameters):
            return False
        return not any(self._bucket.owns(parameter.grad) for parameter in self._parameters)

    def keep(self, gradients: list[torch.Tensor | None]) -> None:
        """Replace gradients that are the buffer itself by copies, which sending does not change."""
        for index in self._bucket.indices:
            gradient = gradients[index]
            if gradient is not None and self._bucket.owns(gradient):
                gradients[index] = gradient.clone()

    def send(self, gradients: Gradients) -> None:
        """Begin the collective. `gradients` are those of all parameters."""
        self._arrived.clear()
        self._given = self._versions(gradients)
        self._bucket.fill(gradients)
        self._work = dist.all_reduce(self._bucket.buffer, group=self._group, async_op=True)

    def has_changed(self, gradients: Gradients) -> bool:
        """Return whether these are not the gradients that were sent."""
        return any(
            given is not now or version != other
            for (given, version), (now, other) in zip(
                self._given, self._versions(gradients), strict=True
            )
        )

    def receive(
        self, gradients: Gradients, averaged: list[torch.Tensor | None], ranks: int
    ) -> None:
        """Wait for the collective, and put the averages into `averaged`."""
        self._work.wait()
        self._given = []
        self._bucket.read(gradients, averaged)
        self._bucket.divide(ranks)

    def _versions(self, gradients: Gradients) -> list[tuple[torch.Tensor | None, int]]:
        """Return this part's gradients, and how often each was written to."""
        return [
            (gradient, 0 if gradient is None else gradient._version)
            for gradient in (gradients[index] for index in self._bucket.indices)
        ]


def _divided(parameters: Sequence[torch.Tensor]) -> tuple[list[list[int]], list[int]]:
    """Return the parameters' numbers in parts of one dtype each, and those of the last part.

    A backward pass makes the last gradients first.
    """
    parts: list[list[int]] = []
    pending: dict[torch.dtype, list[int]] = {}
    for index in reversed(range(len(parameters))):
        part = pending.setdefault(parameters[index].dtype, [])
        part.append(index)
        if sum(parameters[each].nbytes for each in part) >= PART:
            parts.append(pending.pop(parameters[index].dtype))
    last = [index for part in pending.values() for index in part]
    return (parts, last) if last or not parts else (parts[:-1], parts[-1])


def _own_group() -> dist.ProcessGroup:
    """Create a group of all ranks. Collective."""
    own: dist.ProcessGroup = dist.new_group(timeout=TIMEOUT)
    destroy_without_gil(own)
    return own
