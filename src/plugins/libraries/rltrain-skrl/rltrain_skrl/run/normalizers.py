"""Running statistics of skrl's scalers, pooled over ranks: for every framework.

Its agents standardize the batches of an update one by one, which would be a collective each. Here
the memory announces what an update is about to standardize (`MomentPool.expect`), and the first
scaler that is used pools the moments of all of it at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rltrain.types import ProcessGroup

Batch = tuple[Any, Any]
"""Data of shape (B, D), and a reference near it of shape (D,), equal on all ranks."""


class MomentPool:
    """Pools the moments of all batches of an update at once.

    It knows a batch by its identity and pools an unexpected one alone: only the number of
    collectives depends on what was expected.

    Attributes:
        group: the process group.
        is_used: whether scalers learn from the pool, not as in skrl. On one rank it is used where a
            number that is not finite would be kept otherwise.
    """

    def __init__(
        self,
        group: ProcessGroup,
        pool_moments: Callable[[ProcessGroup, Sequence[Batch]], list[Any]],
        on_one_rank: bool = False,
    ) -> None:
        """Expect no batch; `pool_moments` is the framework's."""
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


class PooledScaler:
    """Mixin for skrl's scaler: updated with the moments of all ranks' data before it is used.

    Its state is equal on all ranks, and what one rank with all the data would have.
    """

    defers: ClassVar[bool] = False
    """Whether the memory updates the statistics later, together with those of other arrays."""

    # skrl's, used by this class.
    running_mean: Any

    def __init__(self, size: Any, *, pool: MomentPool, **kwargs: Any) -> None:
        """Make a scaler."""
        super().__init__(size, **kwargs)  # type: ignore[call-arg]
        self._pool = pool

    @abstractmethod
    def merge(self, moments: Any) -> None:
        """Merge the moments of a batch into the running ones.

        skrl merges the unbiased estimate of a batch's variance as if it were its mean square.
        """

    def _standardize(self, x: Any, train: bool, standardize: Callable[..., Any]) -> Any:
        """Return data of shape (..., D) as skrl's `standardize` does, or `DeferredStandardization`.

        Collective with `train` where a pool is used, unless it is deferred.
        """
        if train and x is not None and self._pool.is_used:
            if self.defers:
                return DeferredStandardization(x, self)
            # The pool knows a batch by its identity: 2-D data must not be reshaped.
            rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
            self.merge(self._pool.moments(rows, self.running_mean))
            train = False
        return standardize(x, train=train)


@dataclass(frozen=True, eq=False)
class DeferredStandardization:
    """Data of shape (T, N, 1) that waits to be standardized, and its scaler."""

    data: Any
    scaler: Any

    @property
    def rows(self) -> Any:
        """The data, shape (T * N, 1)."""
        return self.data.reshape(-1, self.data.shape[-1])
