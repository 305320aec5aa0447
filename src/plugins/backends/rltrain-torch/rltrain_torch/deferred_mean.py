"""A number that is averaged over ranks together with the next gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch

from rltrain.types import ProcessGroup

__all__ = ["DeferredMean"]


class DeferredMean:
    """A mean over ranks that only the optimizer's next step needs: of what sets its learning rate.

    A number costs as much time as all gradients if it has a collective of its own. So it waits, and
    the gradient sync averages it as one of its extras.

    Attributes:
        number: what waits on this rank, a tensor of shape ().
    """

    def __init__(self, group: ProcessGroup, use: Callable[[float], None]) -> None:
        """Pass the mean over the ranks of `group` to `use`."""
        self.number = torch.zeros((), device=group.device)
        self._group = group
        self._use = use
        self._waits = False

    def add(self, value: float | torch.Tensor) -> None:
        """Let this rank's value wait. Collective if one waits already: no step came between."""
        self.flush()
        self.number.fill_(value)
        self._waits = True

    def resolve(self, averaged: list[torch.Tensor] | None) -> None:
        """Use the mean over ranks, if something has waited for it.

        Args:
            averaged: what `synchronize` returned for this number alone.
        """
        if self._waits and averaged is not None:
            self._waits = False
            self._use(float(averaged[0]))

    def flush(self) -> None:
        """Use the mean now: no step follows in this iteration. Collective if something waits."""
        if self._waits:
            self.resolve([self._group.all_reduce(self.number.clone(), "mean")])
