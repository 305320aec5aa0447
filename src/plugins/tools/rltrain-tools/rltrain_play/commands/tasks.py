"""List tasks: their spaces, what can learn them, and which have tuned options."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shutil
from dataclasses import dataclass
from typing import Any

from rltrain.commands import add_flags, print_json, read_flags
from rltrain.config import RunConfig
from rltrain.errors import RltrainError, UsageError, in_a_line
from rltrain.launch import private_folder
from rltrain.options import Group, Scope, default_options
from rltrain.plugins import Registry, discover
from rltrain.specs import LibrarySpec, SuiteSpec
from rltrain.terminal import note, one_line
from rltrain.types import TaskInfo

OWN = Group("options")

_NARROW = 12
"""Characters that a column keeps at least."""


@dataclass(frozen=True, kw_only=True)
class TasksOptions:
    """The command's options."""

    words: tuple[str, ...] = OWN.option(
        (), Scope.COMMAND, "only tasks that have each word in their name", kind="words"
    )
    suite: str | None = OWN.named(None, Scope.COMMAND, "only this suite's tasks")
    json: bool = OWN.switch(Scope.COMMAND, "print JSON, with the tasks that cannot be made here")
    no_plugin: tuple[str, ...] = OWN.named((), Scope.COMMAND, "leave a plugin out", kind="append")


class TasksCommand:
    """List tasks: their spaces, what can learn them, and which have tuned options.

    A library is listed if its default algorithm can learn the task. If a task's spaces are known
    only once the environment is made, they are left out.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        add_flags(parser, of=TasksOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print one row for each task that can be made here, and count the others."""
        own = read_flags(TasksOptions, arguments)
        registry = discover(own.no_plugin)
        asked = [registry.get(SuiteSpec, own.suite)] if own.suite else []
        suites = asked or registry.all(SuiteSpec)
        # Environments that are made to describe them leave logs in the current folder, as MuJoCo's.
        with private_folder() as elsewhere, contextlib.chdir(elsewhere):
            rows = [
                _row(suite, task, registry)
                for suite, tasks in registry.ask(suites, lambda x: [*x.tasks()], [str(own.suite)])
                for task in tasks
                if all(word.lower() in task.lower() for word in own.words)
            ]
        if not (rows or own.json):
            raise UsageError(
                f"tasks {' '.join(own.words)}: no task has that in its name."
                f"{registry.not_ready(SuiteSpec)}"
            )
        for text in registry.failed:
            note(text)
        if own.json:
            print_json(rows)
            return 0
        ready = [row for row in rows if not row["reason"]]
        _print_table([_texts(row) for row in ready])
        if any(row["tuned"] for row in ready):
            print("\n* has options that were tuned for the task.")
        if len(ready) < len(rows):
            print(f"\n{len(rows) - len(ready)} more cannot be made here; --json says why.")
        return 0


def _row(suite: SuiteSpec, task: str, registry: Registry) -> dict[str, Any]:
    info, able = None, []
    try:
        info = suite.describe(task, {})
        reason = "" if info else f"The suite {suite.name} lists it, but does not know it."
        libraries = registry.all(LibrarySpec) if info else []
        asked = registry.ask(libraries, lambda x: info and _can_learn(x, suite, info))
        able = [library for library, can in asked if can]
    except Exception as error:  # A suite may raise anything.
        reason = str(error) if isinstance(error, RltrainError) else in_a_line(error)
    known = {} if info is None else vars(info)
    return {
        "suite": suite.name,
        "task": task,
        "reason": reason,
        "observations": info
        and info.observations
        and {name: dataclasses.asdict(group) for name, group in info.observations.items()},
        **{x: known.get(x) for x in ("action", "actions", "num_envs", "max_episode_length")},
        "libraries": [library.name for library in able],
        "tuned": [x.name for x in able if info and _is_tuned(x, suite, info)],
    }


def _can_learn(library: LibrarySpec, suite: SuiteSpec, task: TaskInfo) -> bool:
    """Return whether the library's default algorithm and options can learn the task."""
    frameworks = [name for name in library.frameworks if name in suite.frameworks]
    if not frameworks:
        return False
    algorithm = library.algorithms[0]
    agent, _ = default_options(library, suite, task, algorithm, frameworks[0])
    config = RunConfig(
        library=library.name,
        algorithm=algorithm,
        framework=frameworks[0],
        suite=suite.name,
        task=task.name,
        backend="any",  # No refusal depends on it.
        grad_sync="any",
        agent=agent,
        num_envs=task.num_envs,
    )
    return not any(refusal.applies(config, task) for refusal in library.refuses)


def _is_tuned(library: LibrarySpec, suite: SuiteSpec, task: TaskInfo) -> bool:
    tuned = suite.tuned
    return tuned is not None and any(tuned(task, library.name, x) for x in library.algorithms)


def _texts(row: dict[str, Any]) -> dict[str, str]:
    """Format a row for the table."""
    groups = (row["observations"] or {}).items()
    shapes = [f"{name} {'x'.join(map(str, group['shape']))}" for name, group in groups]
    names = [f"{name}*" if name in row["tuned"] else name for name in row["libraries"]]
    return {
        "suite": row["suite"],
        "task": row["task"],
        "observations": ", ".join(shapes) or "?",
        "actions": " ".join(map(str, [row["action"], *(row["actions"] or ())])),
        "libraries": ", ".join(names) or "none",
    }


def _print_table(rows: list[dict[str, str]]) -> None:
    """Print the rows; on a terminal, long texts are cut so that a row is a line."""
    if not rows:
        return
    rows = [{name: one_line(text) for name, text in row.items()} for row in rows]
    head = {name: name.upper() for name in rows[0]}
    widths = {name: max(len(row[name]) for row in (head, *rows)) for name in head}
    if columns := shutil.get_terminal_size((0, 0)).columns:
        spare = columns - sum(widths.values()) - 2 * (len(widths) - 1)
        for name in ("observations", "actions"):
            kept = min(widths[name], max(_NARROW, widths[name] + spare))
            spare += widths[name] - kept
            widths[name] = kept
    for row in (head, *rows):
        cells = (
            text.ljust(width) if len(text := row[name]) <= width else f"{text[: width - 3]}..."
            for name, width in widths.items()
        )
        print("  ".join(cells).rstrip())
