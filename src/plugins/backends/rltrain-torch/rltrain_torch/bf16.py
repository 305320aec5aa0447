"""Gradient sync `bf16`: half the bytes a step; what is rounded off is sent in later steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rltrain import hookimpl
from rltrain.session import Session
from rltrain.types import GradientSync, ProcessGroup
from rltrain_torch.gradients import Bucket, FlatSync, check_count


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


class Bf16Sync:
    """Averages all gradients of an optimizer with one all-reduce in bfloat16.

    bfloat16 has the range of float32, and 8 bits of precision. A rank keeps what its gradient lost
    and adds it to its next one (error feedback, Seide et al. 2014, "1-Bit Stochastic Gradient
    Descent"): over many steps, the averages add up to those of the true gradients. The rounding of
    the sum itself, one part in 256 for each addition, belongs to no rank and is not corrected.

    NaN and infinity are sent as they are, and not kept.

    Attributes:
        errors: what this rank has rounded off: float32, one for each element of the parameters.
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
        self._bucket = Bucket([*range(self._count)], [*parameters], torch.bfloat16)

    @torch.no_grad()
    def __call__(self, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the averages, in tensors that the next call overwrites."""
        check_count(gradients, self._count)
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
