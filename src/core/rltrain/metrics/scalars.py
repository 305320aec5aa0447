"""An iteration's scalars, merged over ranks in one collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.errors import DivergenceError, PluginError
from rltrain.types import ProcessGroup

Scalar = float | tuple[float, float]
"""One rank's value: a number, or the pair (sum, count) of several numbers."""

PHASES = "time/"
"""Prefix of the names of phase times, whose minimum and maximum over ranks are kept as well."""

OWN = 4
"""How many numbers of its own, which are not summed, a rank sends the others."""

_MEANS = 3 + OWN
"""Where the means begin in a row."""


@dataclass(frozen=True)
class Merged:
    """One iteration's metrics of all ranks together."""

    values: dict[str, float]
    """The scalars, by name."""
    sums: list[float]
    """The core's own sums."""
    own: list[tuple[float, ...]]
    """By rank, the `OWN` numbers of its own."""


class ScalarExchange:
    """Merges scalars over ranks with one all-reduce of a packed float64 array.

    The array has the same layout on every rank. First come the values that must not be summed, one
    row for each rank; a rank fills its own row and leaves the others zero. Then come the sums and
    counts by name. When a rank has a new name, the ranks first agree on the list of names. A rank
    without a value for a name adds a count of 0.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._names: tuple[str, ...] = ()

    def merge(
        self,
        iteration: int,
        values: Mapping[str, Scalar],
        sums: Sequence[float],
        own: Sequence[float],
    ) -> Merged:
        """Merge one iteration's scalars. Collective.

        A name ending in "(min)", "(max)" or "(sum)" gets the minimum, maximum or sum; any other
        gets the mean, weighted by the counts.
        """
        pairs = {name: _pair(name, value) for name, value in values.items()}
        place = [float(iteration), 0.0]
        rows, rest = self._sum(place, pairs, sums, own)
        if rows[:, 2].any():  # Equal on every rank, so either all ranks gather or none does.
            ranks = self._group.gather_objects(list(values))
            self._names = tuple(
                dict.fromkeys([*self._names, *(n for names in ranks for n in names)])
            )
            rows, rest = self._sum(place, pairs, sums, own)
        merged = {}
        for index, name in enumerate(self._names):
            total, count = rest[len(sums) + 2 * index :][:2]
            if count:
                merged.update(self._merged(name, float(total), float(count), rows, index))
        owned = [tuple(map(float, row)) for row in rows[:, 3:_MEANS]]
        return Merged(merged, [float(x) for x in rest[: len(sums)]], owned)

    def finish(self, iteration: int, sums: int) -> None:
        """Make sure that every rank ends after this iteration, with `merge`'s sums. Collective."""
        self._sum([float(iteration), 1.0], {}, [0.0] * sums, [0.0] * OWN)

    def _sum(
        self,
        place: list[float],
        pairs: Mapping[str, tuple[float, float]],
        sums: Sequence[float],
        own: Sequence[float],
    ) -> tuple[Any, Any]:
        """Return the rows, shape (world_size, _MEANS + 2 * names), and the sums after them."""
        import numpy as np

        size, world_size = _MEANS + 2 * len(self._names), self._group.world_size
        rows = np.zeros((world_size, size))
        unknown = any(name not in self._names for name in pairs)
        means = [x for name in self._names for x in _mean(pairs.get(name))]
        own_row = rows[self._group.rank] = [*place, float(unknown), *own, *means]
        totals = [x for name in self._names for x in pairs.get(name, (0.0, 0.0))]
        packed = self._group.all_reduce(np.concatenate([rows.ravel(), [*sums, *totals]]), "sum")
        rows = packed[: world_size * size].reshape(world_size, size)
        self._check_sum(rows, own_row)
        self._check_same_iteration(rows)
        return rows, packed[world_size * size :]

    def _merged(
        self, name: str, total: float, count: float, rows: Any, index: int
    ) -> dict[str, float]:
        place = _MEANS + 2 * index
        given = rows[rows[:, place + 1] > 0, place]
        if name.endswith("(min)"):
            return {name: float(given.min())}
        if name.endswith("(max)"):
            return {name: float(given.max())}
        if name.endswith("(sum)"):
            return {name: total}
        mean = {name: total / count}
        if name.startswith(PHASES) and self._group.world_size > 1:
            mean |= {f"{name} (min)": float(given.min()), f"{name} (max)": float(given.max())}
        return mean

    def _check_sum(self, rows: Any, own: Sequence[float]) -> None:
        """Refuse sums that are not of all ranks: of each row, one rank has given all."""
        import numpy as np

        empty = [str(rank) for rank in np.flatnonzero(~rows[:, :2].any(axis=1))]
        lost = empty if any(own[:2]) else []  # Else every rank may be at iteration 0.
        if lost or not np.allclose(rows[self._group.rank], own, equal_nan=True):
            what = f"changes what rank {self._group.rank} gave"
            what = f"leaves out rank {', '.join(lost)}" if lost else what
            raise PluginError(
                f'all_reduce("sum") of the backend\'s process group {what}: a mistake of the '
                "backend, not of the library. rltrain_devkit.BackendConformance finds it."
            )

    def _check_same_iteration(self, rows: Any) -> None:
        for rank, row in enumerate(rows):
            if tuple(row[:2]) != tuple(rows[0, :2]):
                raise DivergenceError(
                    f"Ranks are at different iterations: rank 0 {_doing(rows[0])}, rank {rank} "
                    f"{_doing(row)}. Every rank must call session.record once in every iteration, "
                    "and end after the same iteration."
                )


def check_number(name: str, value: Any) -> None:
    """Refuse a metric that is no number; whether an array is one is seen when it is read."""
    if not hasattr(value, "__float__"):
        raise PluginError(
            f"The metric {name!r} is {type(value).__name__}: give a number, or the pair "
            "(sum, count) of several."
        )


def _pair(name: str, value: Scalar) -> tuple[float, float]:
    pair = value if isinstance(value, tuple) and len(value) == 2 else (value, 1.0)
    for each in pair:
        check_number(name, each)
    try:
        return float(pair[0]), float(pair[1])
    except (TypeError, ValueError, RuntimeError) as error:  # As of arrays with several numbers.
        raise PluginError(f"The metric {name!r} is no number: {error}") from error


def _mean(pair: tuple[float, float] | None) -> tuple[float, float]:
    """Return this rank's mean, and 1.0 if it has one, else 0.0."""
    if pair is None or not pair[1]:
        return 0.0, 0.0
    return pair[0] / pair[1], 1.0


def _doing(row: Any) -> str:
    verb = "ends after" if row[1] else "records"
    return f"{verb} iteration {int(row[0])}"
