"""Where the time of an iteration goes: medians over iterations, rank by rank."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rltrain.records import Scalars

PHASES = ("rollout", "update", "waiting", "communication")
"""Attributes of `RankTime`."""


@dataclass(frozen=True)
class RankTime:
    """What one rank does in an iteration, in seconds."""

    rollout: float
    """In its environments."""
    update: float
    """In everything else but collectives."""
    waiting: float
    """In collectives, until the slowest rank has entered."""
    communication: float
    """In collectives, after all ranks have entered."""

    @property
    def own(self) -> float:
        """Seconds of its own work."""
        return self.rollout + self.update

    @property
    def whole(self) -> float:
        """Seconds of the iteration."""
        return self.own + self.waiting + self.communication


def warm(scalars: Sequence[Scalars]) -> Sequence[Scalars]:
    """Return the iterations without the first tenth, at least two: those compile and load."""
    first = max(2, len(scalars) // 10)
    return scalars[min(first, len(scalars) - 1) :]


def frames_a_second(scalars: Sequence[Scalars]) -> float:
    """Return the frames a second of all ranks together, the median over iterations."""
    return statistics.median(sum(each.fps) for each in warm(scalars))


def rank_times(scalars: Sequence[Scalars]) -> list[RankTime]:
    """Return each rank's times; none if they were not recorded. Later ranks are left out."""
    known = [
        each
        for each in warm(scalars)
        if each.collectives and len(each.collectives) == len(each.rollout) == len(each.update)
    ]
    ranks = min((len(each.collectives) for each in known), default=0)
    return [
        RankTime(
            rollout=statistics.median(each.rollout[rank] for each in known),
            update=statistics.median(each.update[rank] for each in known),
            waiting=statistics.median(each.waiting[rank] for each in known),
            communication=statistics.median(each.communication for each in known),
        )
        for rank in range(ranks)
    ]


def mean_times(runs: Sequence[Sequence[RankTime]]) -> list[RankTime]:
    """Return the means over runs of the same size, rank by rank."""
    return [
        RankTime(*(statistics.fmean(getattr(one, phase) for one in same) for phase in PHASES))
        for same in zip(*runs, strict=False)
    ]


def slowest(ranks: Sequence[RankTime]) -> str:
    """Return which rank is the slowest, and what that costs the others, in sentences."""
    if len(ranks) < 2:
        return "There is one rank: it waits for no other."
    rank = max(range(len(ranks)), key=lambda rank: ranks[rank].own)
    own = ranks[rank].own
    more = {
        phase: getattr(ranks[rank], phase)
        - statistics.median_low([getattr(each, phase) for each in ranks])
        for phase in ("rollout", "update", "own")
    }
    share = statistics.fmean(each.waiting for each in ranks) / max(ranks[rank].whole, 1e-12)
    relative = more["own"] / max(own - more["own"], 1e-12)
    if relative < 0.03:
        text = f"All ranks have about the same work; rank {rank} has the most, {own:.3g} s"
    else:
        phase = "rollout" if more["rollout"] >= more["update"] else "update"
        text = (
            f"Rank {rank} is the slowest: its own work takes {own:.3g} s an iteration, "
            f"{relative:.0%} more than the median rank's, most of that in its {phase}"
        )
    return f"{text}. Ranks wait for each other {share:.0%} of the time."
