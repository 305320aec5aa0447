"""List tasks: their spaces, what can learn them, and which have tuned options."""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import RltrainError, UsageError, in_a_line
from rltrain.options.agent import default_options
from rltrain.plan.tasks import tasks_of
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import LibrarySpec, SuiteSpec
from rltrain.types import TaskInfo
from rltrain_files.terminal import one_line
from rltrain_ranks.machine.leftovers import private_folder

__all__ = ["TasksCommand"]

_NARROW = 12
"""Characters that a column keeps at least."""


class TasksCommand:
    """List tasks: their spaces, what can learn them, and which have tuned options.

    A library is listed if its default algorithm can learn the task. If a task's spaces are known
    only once the environment is made, they are left out.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        parser.add_argument(
            "words", nargs="*", metavar="WORD", help="only tasks that have each word in their name"
        )
        parser.add_argument("--suite", metavar="NAME", help="only this suite's tasks")
        parser.add_argument(
            "--json",
            action="store_true",
            help="print JSON, with the tasks that cannot be made here",
        )
        parser.add_argument(
            "--no-plugin", action="append", default=[], metavar="NAME", help="leave a plugin out"
        )

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print one row for each task that can be made here, and count the others.

        Raises:
            UsageError: there is no such suite.
        """
        registry = discover(arguments.no_plugin)
        asked = [registry.get(SuiteSpec, arguments.suite)] if arguments.suite else []
        wanted = [word.lower() for word in arguments.words]
        # Environments that are made to look at them leave logs in the current folder, as MuJoCo's.
        with private_folder() as elsewhere, contextlib.chdir(elsewhere):
            rows = [
                _row(suite, task, registry)
                for suite in asked or registry.all(SuiteSpec)
                for task in tasks_of(suite)
                if all(word in task.lower() for word in wanted)
            ]
        if arguments.json:
            print(json.dumps(rows, indent=2))
            return 0
        if not rows:
            raise UsageError(
                f"tasks {' '.join(arguments.words)}: no task has that in its name."
                f"{registry.not_ready(SuiteSpec)}"
            )
        ready = [row for row in rows if not row["reason"]]
        _print_table([_texts(row) for row in ready])
        if any(row["tuned"] for row in ready):
            print("\n* has options that were tuned for the task.")
        if len(ready) < len(rows):
            print(f"\n{len(rows) - len(ready)} more cannot be made here; --json says why.")
        return 0


def _row(suite: SuiteSpec, task: str, registry: Registry) -> dict[str, Any]:
    row: dict[str, Any] = {
        "suite": suite.name,
        "task": task,
        "reason": "",
        "observations": None,
        "action": None,
        "actions": None,
        "num_envs": None,
        "max_episode_length": None,
        "libraries": [],
        "tuned": [],
    }
    try:
        info = suite.describe(task, {})
    except RltrainError as error:
        return {**row, "reason": str(error)}
    except Exception as error:  # Somebody else's task may raise anything.
        return {**row, "reason": in_a_line(error)}
    if info is None:
        return {**row, "reason": f"The suite {suite.name} lists it, but does not know it."}
    able = [library for library in registry.all(LibrarySpec) if _can_learn(library, suite, info)]
    groups = info.observations
    return {
        **row,
        "observations": groups
        and {
            name: {"shape": list(group.shape), "dtype": group.dtype}
            for name, group in groups.items()
        },
        "action": info.action,
        "actions": info.actions and list(info.actions),
        "num_envs": info.num_envs,
        "max_episode_length": info.max_episode_length,
        "libraries": [library.name for library in able],
        "tuned": [library.name for library in able if _is_tuned(library, suite, info)],
    }


def _can_learn(library: LibrarySpec, suite: SuiteSpec, task: TaskInfo) -> bool:
    """Return whether the library's default algorithm and options can learn the task."""
    frameworks = [name for name in library.frameworks if name in suite.frameworks]
    if not frameworks:
        return False
    algorithm, framework = library.algorithms[0], frameworks[0]
    options, _ = default_options(library, suite, task, algorithm, framework)
    config = RunConfig(
        library=library.name,
        algorithm=algorithm,
        task=task.name,
        suite=suite.name,
        framework=framework,
        backend="any",  # No refusal depends on backend or grad_sync.
        grad_sync="any",
        agent=options,
        num_envs=task.num_envs,
    )
    return not any(refusal.applies(config, task) for refusal in library.refuses)


def _is_tuned(library: LibrarySpec, suite: SuiteSpec, task: TaskInfo) -> bool:
    tuned = suite.tuned
    return tuned is not None and any(
        tuned(task, library.name, algorithm) is not None for algorithm in library.algorithms
    )


def _texts(row: dict[str, Any]) -> dict[str, str]:
    """Format a row for the table."""
    groups = row["observations"]
    observations = groups and ", ".join(
        f"{name} {'x'.join(map(str, group['shape']))}" for name, group in groups.items()
    )
    actions = " ".join(map(str, row["actions"] or ()))
    return {
        "suite": row["suite"],
        "task": row["task"],
        "observations": observations or "?",
        "actions": f"{row['action']} {actions}".rstrip(),
        "libraries": ", ".join(
            f"{name}*" if name in row["tuned"] else name for name in row["libraries"]
        )
        or "none",
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
        cells = (_cut(row[name], width).ljust(width) for name, width in widths.items())
        print("  ".join(cells).rstrip())


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
