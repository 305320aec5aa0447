"""What runs on each number of ranks achieve, compared with the smallest number."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.errors import UsageError
from rltrain.records import Scalars
from rltrain.runs import Run
from rltrain_report.groups import options_of
from rltrain_report.timing import RankTime, frames_a_second, mean_times, rank_times


@dataclass(frozen=True)
class Size:
    """All runs on one number of ranks."""

    ranks: int
    runs: tuple[Run, ...]
    fps: tuple[float, ...]
    """Frames a second of all ranks together, run by run: medians over iterations."""
    efficiency: float
    """Frames a second a rank, as a share of those of the smallest number of ranks."""
    times: tuple[RankTime, ...]
    """Each rank's seconds of an iteration, means over runs; empty if they were not recorded."""
    equal_return: tuple[float, ...]
    """Mean return of each run at `equal_frames`."""
    equal_frames: int
    """Frames that every run of every size has reached."""
    seconds_to_target: tuple[float, ...]
    """Of the runs that reached the target return."""
    target: float | None

    @property
    def mean_fps(self) -> float:
        """Mean over runs."""
        return statistics.fmean(self.fps)

    @property
    def num_nodes(self) -> int:
        """On how many nodes they ran."""
        return self.runs[0].metrics.started.num_nodes

    def mean(self, read: Callable[[RankTime], float]) -> float:
        """Return a mean over ranks of their times."""
        return statistics.fmean(read(each) for each in self.times)

    def as_json(self) -> dict[str, Any]:
        """Return what `scale.json` holds of it."""
        return {
            "ranks": self.ranks,
            "nodes": self.num_nodes,
            "environments_a_rank": self.runs[0].metrics.started.num_envs,
            "seeds": [run.metrics.started.seed for run in self.runs],
            "fps": self.fps,
            "efficiency": self.efficiency,
            "seconds_by_rank": [vars(each) for each in self.times],
            "return_at_equal_frames": self.equal_return,
            "equal_frames": self.equal_frames,
            "target_return": self.target,
            "seconds_to_target_return": self.seconds_to_target,
        }


def sizes_of(runs: Sequence[Run]) -> list[Size]:
    """Return what runs of one task and library achieve, by their number of ranks."""
    _check(runs)
    targets = {run.config.get("target_return") for run in runs}
    target = targets.pop() if len(targets) == 1 else None
    frames = min(run.scalars[-1].frames for run in runs)
    by_ranks: dict[int, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.metrics.started.world_size):
        by_ranks.setdefault(run.metrics.started.world_size, []).append(run)
    sizes: list[Size] = []
    for ranks, same in by_ranks.items():
        fps = tuple(frames_a_second(run.scalars) for run in same)
        a_rank = statistics.fmean(fps) / ranks
        best = sizes[0].mean_fps / sizes[0].ranks if sizes else a_rank
        solved = [run for run in same if run.metrics.ended and run.metrics.ended.solved]
        sizes.append(
            Size(
                ranks=ranks,
                runs=tuple(same),
                fps=fps,
                efficiency=a_rank / best,
                times=tuple(mean_times([rank_times(run.scalars) for run in same])),
                equal_return=tuple(
                    found for run in same if (found := _return_at(run.scalars, frames)) is not None
                ),
                equal_frames=frames,
                seconds_to_target=tuple(run.seconds for run in solved) if target else (),
                target=target,
            )
        )
    return sizes


def _return_at(scalars: Sequence[Scalars], frames: int) -> float | None:
    """Return the mean return after so many frames, interpolated between iterations."""
    import numpy as np

    known = [
        (each.frames, each.episode_return) for each in scalars if each.episode_return is not None
    ]
    if not known or known[0][0] > frames:
        return None
    xs, ys = zip(*known, strict=True)
    return float(np.interp(frames, xs, ys))


def _check(runs: Sequence[Run]) -> None:
    """Refuse runs that cannot be compared."""
    for name in ("task", "library", "algorithm"):
        values = dict.fromkeys(str(getattr(run.metrics.started, name)) for run in runs)
        if len(values) > 1:
            raise UsageError(
                f"The runs differ in the {name}, {' and '.join(values)}: numbers of ranks can be "
                "compared only where all else is equal. Name the runs of one."
            )
    counts = {run.metrics.started.world_size for run in runs}
    if len(counts) == 1:
        raise UsageError(
            f"All runs had {counts.pop()} ranks: there is nothing to compare. Name runs on several "
            "numbers of ranks."
        )


def mode_of(runs: Sequence[Run]) -> str:
    """Return "weak" if all ranks had as many environments, "strong" if all runs had."""
    started = [run.metrics.started for run in runs]
    if len({each.num_envs for each in started}) == 1:
        return "weak"
    if len({each.num_envs * each.world_size for each in started}) == 1:
        return "strong"
    envs = ", ".join(f"{each.world_size} x {each.num_envs}" for each in started)
    raise UsageError(
        f"The runs had {envs} (ranks x environments): neither the environments a rank are equal "
        "nor those of all ranks together. Name runs where one of the two is."
    )


def also_differing(runs: Sequence[Run]) -> list[str]:
    """Return the options besides the number of ranks in which runs differ."""
    each = [options_of(run) for run in runs]
    names = dict.fromkeys(name for options in each for name in options)
    return [
        name
        for name in names
        if name not in ("ranks", "num_envs")
        and len({repr(options.get(name)) for options in each}) > 1
    ]
