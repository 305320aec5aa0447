"""The figures of an iteration merged over ranks, in one collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.errors import DivergenceError
from rltrain.types import ProcessGroup

__all__ = ["Figure", "Merged", "ScalarExchange"]

Figure = float | tuple[float, float]
"""A rank's own figure: one number, or the pair (sum, count) of several."""

PHASES = "time/"
"""Names that begin so are the times of phases: least and greatest over ranks are kept as well."""


@dataclass(frozen=True)
class Merged:
    """What all ranks together told."""

    values: dict[str, float]
    """The scalars, by name."""
    sums: list[float]
    """The core's own sums."""
    fps: tuple[float, ...]
    """Frames per second, by rank."""


class ScalarExchange:
    """Merges over ranks what each has to tell, as one packed sum in float64.

    Every rank sends the same numbers in the same places: a row of its own, zero on the others, with
    what is not to be summed, and sums and counts by name. Names are agreed on when a rank first has
    one that the others may not know; a rank that has nothing to say for a name adds a count of 0.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._names: tuple[str, ...] = ()

    def merge(
        self, iteration: int, values: Mapping[str, Figure], sums: Sequence[float], fps: float
    ) -> Merged:
        """Merge one iteration's figures. Collective.

        A name ending in "(min)", "(max)" or "(sum)" takes the least, the greatest or the sum; any
        other the mean, weighted by the counts.

        Raises:
            DivergenceError: the ranks are not at the same iteration.
        """
        figures = {name: _pair(value) for name, value in values.items()}
        place = [float(iteration), 0.0]
        rows, rest = self._sum(place, figures, sums, fps)
        if rows[:, 2].any():  # The same sum on every rank, so that all go this way or none.
            ranks = self._group.gather_objects(list(values))
            self._names = tuple(
                dict.fromkeys([*self._names, *(n for names in ranks for n in names)])
            )
            rows, rest = self._sum(place, figures, sums, fps)
        merged = {}
        for index, name in enumerate(self._names):
            total, count = rest[len(sums) + 2 * index :][:2]
            if count:
                merged.update(self._merged(name, float(total), float(count), rows, index))
        return Merged(merged, [float(x) for x in rest[: len(sums)]], tuple(map(float, rows[:, 3])))

    def finish(self, iteration: int, sums: int) -> None:
        """Make sure that every rank ends after the same iteration. Collective.

        Args:
            iteration: the last one of this rank.
            sums: how many sums `merge` is given.

        Raises:
            DivergenceError: a rank goes on, or ends elsewhere.
        """
        self._sum([float(iteration), 1.0], {}, [0.0] * sums, 0.0)

    def _sum(
        self,
        place: list[float],
        figures: Mapping[str, tuple[float, float]],
        sums: Sequence[float],
        fps: float,
    ) -> tuple[Any, Any]:
        """Return the rows, shape (world_size, 4 + 2 * names), and the sums that follow them."""
        import numpy as np

        size, world_size = 4 + 2 * len(self._names), self._group.world_size
        rows = np.zeros((world_size, size))
        unknown = any(name not in self._names for name in figures)
        apart = [x for name in self._names for x in _apart(figures.get(name))]
        rows[self._group.rank] = [*place, float(unknown), fps, *apart]
        told = [x for name in self._names for x in figures.get(name, (0.0, 0.0))]
        packed = self._group.all_reduce(np.concatenate([rows.ravel(), [*sums, *told]]), "sum")
        rows = packed[: world_size * size].reshape(world_size, size)
        self._check_in_step(rows)
        return rows, packed[world_size * size :]

    def _merged(
        self, name: str, total: float, count: float, rows: Any, index: int
    ) -> dict[str, float]:
        given = rows[rows[:, 5 + 2 * index] > 0, 4 + 2 * index]
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

    def _check_in_step(self, rows: Any) -> None:
        for rank, row in enumerate(rows):
            if tuple(row[:2]) != tuple(rows[0, :2]):
                raise DivergenceError(
                    f"Ranks are out of step: rank 0 {_doing(rows[0])}, rank {rank} {_doing(row)}. "
                    "Every rank must call session.record once in every iteration, and end after "
                    "the same one."
                )


def _pair(value: Figure) -> tuple[float, float]:
    if isinstance(value, tuple):
        return float(value[0]), float(value[1])
    return float(value), 1.0


def _apart(figure: tuple[float, float] | None) -> tuple[float, float]:
    """Return this rank's mean, and whether it has one."""
    if figure is None or not figure[1]:
        return 0.0, 0.0
    return figure[0] / figure[1], 1.0


def _doing(row: Any) -> str:
    verb = "ends after" if row[1] else "records"
    return f"{verb} iteration {int(row[0])}"
