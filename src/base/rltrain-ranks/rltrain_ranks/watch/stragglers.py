"""Ranks that are slow and make all others wait."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

__all__ = ["Stragglers"]

Phase = Literal["rollout", "update"]

_FACTOR = 2.0
"""A rank is slow if it takes this many times as long as the median."""
_IN_A_ROW = 10
"""Iterations after which a slow rank is named."""
_SHORTEST = 0.01
"""Seconds of an iteration, below which differences are noise."""
_SHARE = 0.25
"""Share of the median iteration that a slow rank costs at least."""


class Stragglers:
    """Names each slow rank once. All ranks may ask: the answers are equal."""

    def __init__(self) -> None:
        self._is_first = True
        self._counts: dict[tuple[int, Phase], int] = {}
        self._named: set[int] = set()

    def find(self, seconds: Sequence[tuple[float, float]]) -> list[str]:
        """Count an iteration, and describe the ranks that are slow since some time.

        Args:
            seconds: by rank, its own seconds in its environments and in everything else, without
                those in which it waits for others.
        """
        total = statistics.median_low(map(sum, seconds))
        is_first, self._is_first = self._is_first, False  # It compiles, and loads.
        if is_first or total < _SHORTEST:
            return []
        rollout, update = (statistics.median_low(column) for column in zip(*seconds, strict=True))
        lines = []
        for rank, (own_rollout, own_update) in enumerate(seconds):
            if self._is_slow(rank, "rollout", own_rollout, rollout, own_rollout - rollout, total):
                lines.append(
                    _line(rank, "stepping its environments (rollout)", own_rollout, rollout)
                )
            # Where collectives return before they are done, waiting is part of the update. But then
            # all ranks take the same time in total.
            more = own_rollout + own_update - total
            if self._is_slow(rank, "update", own_update, update, more, total):
                lines.append(_line(rank, "everything else (update)", own_update, update))
        return lines

    def _is_slow(
        self, rank: int, phase: Phase, own: float, median: float, more: float, total: float
    ) -> bool:
        """Count; return whether the rank is to be named now."""
        slow = own >= _FACTOR * median and more >= _SHARE * total
        count = self._counts[rank, phase] = self._counts.get((rank, phase), 0) + 1 if slow else 0
        if count < _IN_A_ROW or rank in self._named:
            return False
        self._named.add(rank)
        return True


def _line(rank: int, phase: str, own: float, median: float) -> str:
    times = f"{own / median:.1f} times as long as" if median else "longer than"
    return (
        f"Rank {rank} is slow, and the others wait for it: {_IN_A_ROW} iterations in a row, "
        f"{phase} took it {times} the median of all ranks, now {own:.3g} s an iteration, "
        f"not {median:.3g} s."
    )
