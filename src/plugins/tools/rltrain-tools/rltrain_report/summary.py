"""The tables of groups and of runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rltrain.builtin.console import duration
from rltrain_report.groups import DONE, Group
from rltrain_report.numbers import compact, number, spread
from rltrain_report.page import Folded, Section, Table, Text
from rltrain_report.timing import frames_a_second


def summary_section(groups: Mapping[str, Sequence[Group]]) -> Section:
    """Return a table of the groups of each task, and folded one of the runs."""
    head = ["", "seeds", "ranks", "environments", "iterations", "frames", "time", "fps", "return"]
    rows = [_group_row(group) for same in groups.values() for group in same]
    if len(groups) > 1:
        head.insert(1, "task")
        tasks = [task for task, same in groups.items() for _ in same]
        rows = [[row[0], task, *row[1:]] for row, task in zip(rows, tasks, strict=True)]
    runs = [
        (
            run.name,
            str(run.metrics.started.seed),
            run.outcome,
            str(run.scalars[-1].iteration),
            compact(run.scalars[-1].frames),
            duration(run.seconds),
            number(frames_a_second(run.scalars)),
            number(run.scalars[-1].episode_return),
            number(run.best_return),
        )
        for same in groups.values()
        for group in same
        for run in group.runs
    ]
    columns = ("run", "seed", "ended", "iterations", "frames", "time", "fps", "return", "best")
    note = (
        "Return is the mean of the last episodes, and in a group the mean over seeds, with the "
        "lowest and the highest. Frames a second (fps) are those of all ranks together, the "
        "median over iterations without the first ones."
    )
    others = [
        f"{run.name} ({'another run of its seed counts' if run.outcome in DONE else run.outcome})"
        for same in groups.values()
        for group in same
        for run in group.others
    ]
    left_out = [f"In no mean, and dotted in pictures: {', '.join(others)}."] if others else []
    blocks = [
        Table(head, rows, numbers=range(len(head) - 8, len(head))),
        Text(left_out, "bad"),
        Text([note]),
        Folded("Each run", [Table(columns, runs, numbers=(1, 3, 4, 5, 6, 7, 8))]),
    ]
    return Section("Summary", blocks, "summary")


def _group_row(group: Group) -> list[str]:
    started = group.runs[0].metrics.started
    last = [run.scalars[-1] for run in group.counted]
    return [
        group.label,
        str(len(last)),
        str(started.world_size),
        f"{started.num_envs:,} a rank",
        spread([each.iteration for each in last]),
        spread([each.frames for each in last], compact),
        duration(statistics.fmean(run.seconds for run in group.counted)),
        number(statistics.fmean(frames_a_second(run.scalars) for run in group.counted)),
        spread([each.episode_return for each in last]),
    ]
