"""The report: what is shown of runs, section by section."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rltrain.errors import UsageError, in_a_line
from rltrain.records import Scalars
from rltrain.runs import Run
from rltrain_report.facts import (
    check_blocks,
    environment_section,
    evaluation_blocks,
    warning_blocks,
)
from rltrain_report.groups import Group, differences, grouped
from rltrain_report.numbers import HIGHEST, slugs
from rltrain_report.page import Folded, Page, Pictures, Section, Table, Text
from rltrain_report.pictures import Picture, curve_picture, time_picture
from rltrain_report.summary import summary_section
from rltrain_report.timing import mean_times, rank_times, slowest

_EPISODES: dict[str, Callable[[Scalars], float | None]] = {
    "Return": lambda each: each.episode_return,
    "Episode length": lambda each: each.episode_length,
    "Success rate": lambda each: each.success_rate,
}

_MOST = 60
"""Values that have pictures."""


def report_page(runs: Sequence[Run]) -> Page:
    """Return the report of runs that have recorded something, whatever their files hold."""
    try:
        return _page(runs)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"{', '.join(str(run.path) for run in runs)}: a file holds a value that rltrain does "
            f"not write ({in_a_line(error):.200}). Leave that run out."
        ) from error


def _page(runs: Sequence[Run]) -> Page:
    tasks = list(dict.fromkeys(run.metrics.started.task for run in runs))
    groups = {
        task: grouped([run for run in runs if run.metrics.started.task == task]) for task in tasks
    }
    sections = [summary_section(groups)]
    several = slugs(tasks) if len(tasks) > 1 else {}
    for task, same in groups.items():
        sections += _of_task(same, task, several.get(task, ""))
    rest = [
        Section("Evaluations", evaluation_blocks(runs), "evaluations"),
        Section("Divergence checks", check_blocks(runs), "checks"),
        environment_section(runs),
        Section("Warnings and errors", warning_blocks(runs), "warnings"),
    ]
    sections += [section for section in rest if section.blocks]
    return Page(
        title=", ".join(tasks),
        lead=_lead(runs, sum(map(len, groups.values()))),
        sections=sections,
        foot=f"Written by rltrain report on {time.strftime('%Y-%m-%d %H:%M')}.",
    )


def _lead(runs: Sequence[Run], groups: int) -> str:
    text = f"{len(runs)} runs in {groups} group{'s' if groups > 1 else ''}"
    text = "One run" if len(runs) == 1 else text
    libraries = dict.fromkeys(run.metrics.started.library for run in runs)
    training = sum(run.metrics.ended is None for run in runs)
    still = f" {training} had not ended when this page was written." if training else ""
    alike = " Runs of a group differ in nothing but their seeds." if groups < len(runs) else ""
    return f"{text}, trained with {' and '.join(libraries)}.{alike}{still}"


def _of_task(groups: Sequence[Group], task: str, name: str) -> list[Section]:
    """Return what is shown of one task; where there are several, titles and names end with it."""
    suffix = f"-{name}" if name else ""
    parts = {
        "Learning": _learning(groups, suffix),
        "Time of an iteration": _times(groups, suffix),
        "Losses and other values": _values(groups, suffix),
        "What differs": _differences(groups),
    }
    return [
        Section(f"{title}: {task}" if name else title, blocks, f"{anchor}{suffix}")
        for (title, blocks), anchor in zip(parts.items(), slugs(parts).values(), strict=True)
        if blocks
    ]


def _learning(groups: Sequence[Group], suffix: str) -> list[Any]:
    blocks: list[Any] = []
    names = slugs(_EPISODES)
    wanted = [run.target_return for group in groups for run in group.runs]
    targets = {"Return": sorted({x for x in wanted if x is not None and abs(x) < HIGHEST})}
    for across in ("frames", "seconds"):
        pictures = _there(
            curve_picture(
                *(f"{names[what]}-{across}{suffix}", what, groups, read, across),
                targets.get(what, ()),
            )
            for what, read in _EPISODES.items()
        )
        blocks += [Pictures(pictures)] if pictures else []
    if not blocks:
        return [Text(["No episode has ended yet."])]
    if any(len(group.runs) > 1 for group in groups):
        note = (
            "A thick line is the mean over n seeds that finished, as far as all of them "
            "recorded; the band is from the lowest to the highest seed. Thin lines are the seeds, "
            "dotted ones runs that are in no mean."
        )
        blocks.append(Text([note]))
    return blocks


def _times(groups: Sequence[Group], suffix: str) -> list[Any]:
    pictures, lines = [], []
    names = slugs(group.label for group in groups)
    for group in groups:
        ranks = mean_times([rank_times(run.scalars) for run in group.counted])
        picture = time_picture(f"time-{names[group.label]}{suffix}", group.label, ranks)
        if picture is not None:
            pictures.append(picture)
            lines.append(f"{group.label}: {slowest(ranks)}")
    if not pictures:
        return [Text(["The phases of the iterations were not recorded."])]
    note = (
        "Medians over iterations without the first ones. Rollout: in the environments. Update: "
        "everything else but collectives. Waiting: in collectives, until the last rank enters. "
        "Communication: in collectives after that. With NCCL and jax, a part of the last two "
        "counts as update."
    )
    return [Text(lines), Pictures(pictures), Text([note])]


def _values(groups: Sequence[Group], suffix: str) -> list[Any]:
    """Return the losses, and folded all other values."""
    values = {
        value
        for group in groups
        for run in group.runs
        for each in run.scalars
        for value in each.values
        if not value.startswith("time/")
    }
    names = slugs(sorted(values)[:_MOST])
    pictures = _there(
        curve_picture(f"value-{name}{suffix}", value, groups, _reader(value), "frames")
        for value, name in names.items()
    )
    losses = [each for each in pictures if each.title.lower().startswith("loss")]
    others = [each for each in pictures if each not in losses]
    blocks: list[Any] = [Pictures(losses)] if losses else []
    if others:
        what = f"{len(others)} other values" if len(others) > 1 else "1 other value"
        blocks.append(Folded(what, [Pictures(others)]))
    if len(values) > _MOST:
        blocks.append(Text([f"{len(values) - _MOST:,} more values are not shown."]))
    return blocks


def _reader(value: str) -> Callable[[Scalars], float | None]:
    return lambda each: each.values.get(value)


def _there(pictures: Iterable[Picture | None]) -> list[Picture]:
    return [picture for picture in pictures if picture is not None]


def _differences(groups: Sequence[Group]) -> list[Any]:
    rows = [(name, *values) for name, values in differences(groups)]
    note = "A library's own options are compared only between runs of that library."
    table = Table(("option", *(group.label for group in groups)), rows)
    return [table, Text([note])] if rows else []
