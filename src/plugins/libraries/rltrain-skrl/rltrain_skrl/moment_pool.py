"""Moments of several batches, pooled over ranks in one collective before skrl uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rltrain.types import ProcessGroup

Batch = tuple[Any, Any]
"""Data of shape (B, D), and a reference near it of shape (D,), equal on all ranks."""


class MomentPool:
    """Pools the moments of all batches of an update at once.

    skrl standardizes them one by one, which would be a collective each. The pool knows a batch by
    its identity and pools an unexpected one alone: only the number of collectives depends on what
    was expected.

    Attributes:
        group: the process group.
        is_used: whether scalers learn from the pool, not as in skrl.
    """

    def __init__(
        self,
        group: ProcessGroup,
        pool_moments: Callable[[ProcessGroup, Sequence[Batch]], list[Any]],
        on_one_rank: bool = False,
    ) -> None:
        """Expect no batch.

        Args:
            group: the process group.
            pool_moments: the framework's; returns the moments of several batches over all ranks, in
                one collective.
            on_one_rank: whether it is used there, too: skrl keeps a number that is not finite.
        """
        self.group, self.is_used = group, on_one_rank or group.world_size > 1
        self._pool_moments = pool_moments
        self._expected: list[Batch] = []
        self._pooled: list[Any] = []

    def expect(self, batches: Sequence[Batch]) -> None:
        """Expect these batches, and no others."""
        self._expected, self._pooled = list(batches), []

    def pool(self, batches: Sequence[Batch]) -> list[Any]:
        """Return the moments of these batches; pool the expected ones with them. Collective."""
        moments = self._pool_moments(self.group, [*batches, *self._expected])
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
        return self._pool_moments(self.group, [(data, about)])[0]
