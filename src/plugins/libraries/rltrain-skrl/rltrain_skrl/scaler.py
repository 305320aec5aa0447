"""Running statistics pooled over ranks, for every framework."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from rltrain_skrl.moment_pool import MomentPool


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
        """Merge the moments of a batch into the running ones, as skrl does."""

    def _standardize(self, x: Any, train: bool, standardize: Callable[..., Any]) -> Any:
        """Return standardized data of shape (..., D), or `Unscaled`.

        Collective with `train` where a pool is used, unless it is deferred.

        Args:
            x: the data, or None.
            train: whether to update the statistics first.
            standardize: skrl's own method.
        """
        if train and x is not None and self._pool.is_used:
            if self.defers:
                return Unscaled(x, self)
            # The pool knows a batch by its identity: 2-D data must not be reshaped.
            rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
            self.merge(self._pool.moments(rows, self.running_mean))
            train = False
        return standardize(x, train=train)


@dataclass(frozen=True, eq=False)
class Unscaled:
    """Data that waits to be standardized, and its scaler."""

    data: Any
    """Shape (T, N, 1)."""
    scaler: Any

    @property
    def rows(self) -> Any:
        """The data, shape (T * N, 1)."""
        return self.data.reshape(-1, self.data.shape[-1])
