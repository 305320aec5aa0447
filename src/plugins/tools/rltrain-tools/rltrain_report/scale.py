"""Compare runs on several numbers of ranks with those on the smallest number."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rltrain.commands import add_flags, read_flags
from rltrain.errors import UsageError
from rltrain.runs import Run
from rltrain_report.command import RunsOptions
from rltrain_report.numbers import spread
from rltrain_report.runs import read_runs
from rltrain_report.timing import (
    PHASES,
    RankTime,
    frames_a_second,
    mean_times,
    rank_times,
    slowest,
)

_GOOD = 0.95
"""An efficiency that needs no explanation."""


class ScaleCommand:
    """Compare runs on several numbers of ranks: how much faster more are, and why not more.

    Examples:
      rltrain --library rl_games --nproc-per-node 1 --run-name one
      rltrain --library rl_games --nproc-per-node 2 --run-name two
      rltrain scale logs/rl_games/*/*_one logs/rl_games/*/*_two

    Runs on one number of ranks, such as those of several seeds, are one row. `rltrain report` of
    the same runs shows their curves.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        add_flags(parser, of=RunsOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print a table, and where the lost time goes."""
        own = read_flags(RunsOptions, arguments)
        sizes = sizes_of(read_runs(own.runs, own.log_root))
        print(*table(sizes), "", *reasons(sizes), sep="\n")
        return 0


@dataclass(frozen=True)
class Size:
    """All runs on one number of ranks."""

    ranks: int
    environments: int
    """Of a rank."""
    fps: tuple[float, ...]
    """Frames a second of all ranks together, run by run: medians over iterations."""
    times: tuple[RankTime, ...]
    """Each rank's seconds of an iteration, means over runs; empty if they were not recorded."""

    @property
    def fps_of_a_rank(self) -> float:
        """The mean over runs."""
        return statistics.fmean(self.fps) / self.ranks

    def mean(self, phase: str) -> float:
        """Return the mean over ranks of an attribute of `RankTime`."""
        return statistics.fmean(getattr(each, phase) for each in self.times)


def sizes_of(runs: Sequence[Run]) -> list[Size]:
    """Return what runs of one task and library achieve, by their number of ranks."""
    for name in ("task", "library", "algorithm"):
        values = dict.fromkeys(str(getattr(run.metrics.started, name)) for run in runs)
        if len(values) > 1:
            raise UsageError(
                f"The runs differ in the {name}, {' and '.join(values)}: numbers of ranks can be "
                "compared only where all else is equal. Name the runs of one."
            )
    by_ranks: dict[int, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.metrics.started.world_size):
        by_ranks.setdefault(run.metrics.started.world_size, []).append(run)
    if len(by_ranks) == 1:
        raise UsageError(
            f"All runs had {next(iter(by_ranks))} ranks: there is nothing to compare. Name runs on "
            "several numbers of ranks."
        )
    return [
        Size(
            ranks=ranks,
            environments=same[0].metrics.started.num_envs,
            fps=tuple(frames_a_second(run.scalars) for run in same),
            times=tuple(mean_times([rank_times(run.scalars) for run in same])),
        )
        for ranks, same in by_ranks.items()
    ]


def table(sizes: Sequence[Size]) -> list[str]:
    """Return a row for each number of ranks, as lines of Markdown."""
    head = ["ranks", "environments", "runs", "fps", "efficiency", "waiting", "communication"]
    rows = [head]
    for size in sizes:
        whole = size.mean("whole") if size.times else 0.0
        shares = [
            f"{size.mean(phase) / whole:.0%}" if whole else "-"
            for phase in ("waiting", "communication")
        ]
        row = [str(size.ranks), f"{size.environments:,} a rank", str(len(size.fps))]
        rows.append([*row, spread(size.fps), f"{_efficiency(size, sizes[0]):.0%}", *shares])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * (width - 1) + ":" for width in widths])
    return [
        f"| {' | '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in rows
    ]


def _efficiency(size: Size, base: Size) -> float:
    return size.fps_of_a_rank / base.fps_of_a_rank


def reasons(sizes: Sequence[Size]) -> list[str]:
    """Return sentences for each number of ranks but the smallest."""
    return [_reason(size, sizes[0]) for size in sizes[1:]]


def _reason(size: Size, base: Size) -> str:
    """Return how fast a number of ranks is, and where the lost time goes."""
    efficiency, than = _efficiency(size, base), "one" if base.ranks == 1 else str(base.ranks)
    text = (
        f"{size.ranks} ranks: {efficiency * size.ranks / base.ranks:.2f} times the frames a second "
        f"of {than}, an efficiency of {efficiency:.0%}."
    )
    if efficiency >= _GOOD or not size.times or not base.times:
        return text
    # A rank with fewer environments than one of the smallest number has as much less to do.
    share = size.environments / base.environments
    ideal = {phase: base.mean(phase) * share for phase in PHASES}
    now = {phase: size.mean(phase) for phase in PHASES}
    lost = {phase: max(now[phase] - ideal[phase], 0.0) for phase in PHASES}
    whole = max(sum(lost.values()), 1e-12)
    shares = [
        f"{lost[phase] / whole:.0%} is {phase} ({now[phase]:.3g} s instead of {ideal[phase]:.3g} s)"
        for phase in sorted(lost, key=lambda phase: -lost[phase])
        if lost[phase] / whole >= 0.1
    ]
    return (
        f"{text} An iteration takes {sum(now.values()):.3g} s; {sum(ideal.values()):.3g} s would "
        f"be perfect. Of the lost time, {', '.join(shares)}. {slowest(size.times)}"
    )
