"""Moments of several batches, pooled over ranks in one collective before they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rltrain.types import ProcessGroup

__all__ = ["MomentPool"]

Batch = tuple[Any, Any]
"""Data of shape (B, D), and a reference near it of shape (D,), equal on all ranks."""


class MomentPool:
    """Knows which batches an update is going to meet, and pools the moments of all at once.

    skrl meets them one by one, and would wait for the other ranks each time. A batch is known by
    its identity: one that was not expected is pooled by itself, so that nothing depends on what was
    expected but the number of collectives.
    """

    pool_moments: Callable[[ProcessGroup, Sequence[Batch]], list[Any]]
    """The framework's: the moments of several batches over all ranks, in one collective."""

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self._expected: list[Batch] = []
        self._pooled: list[Any] = []

    def expect(self, batches: Sequence[Batch]) -> None:
        """Forget the batches that were expected, and expect these."""
        self._expected, self._pooled = list(batches), []

    def pool(self, batches: Sequence[Batch]) -> list[Any]:
        """Pool these batches now, and with them those that are expected. Collective."""
        moments = self.pool_moments(self.group, [*batches, *self._expected])
        self._pooled = moments[len(batches) :]
        return moments[: len(batches)]

    def moments(self, data: Any, about: Any) -> Any:
        """Return the moments of a batch over all ranks.

        Collective, unless the batch was expected and is pooled already.
        """
        for index, (expected, _) in enumerate(self._expected):
            if expected is data:
                if not self._pooled:
                    self.pool([])
                return self._pooled[index]
        return self.pool_moments(self.group, [(data, about)])[0]
