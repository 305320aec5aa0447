"""Asks Isaac Lab about a task before a run starts. Light, as long as a separate process does it.

The number of environments, the actions and the options must be known before the ranks start. They
are in Isaac Lab's registry, which in Isaac Lab 2 cannot be imported before the app runs. Starting
the app an extra time costs about 20 s; starting ranks with wrong options costs that on every rank.

Isaac Lab 3 without Isaac Sim has no app. There, a process that will make the environments itself
asks itself, so that it imports the task once.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError

TIMEOUT = 600
"""Seconds. Long, because Isaac Sim fills its caches at its first start on a machine."""

_LINES = 15
"""How many of the last lines that the process printed are shown if it failed."""


def ask(task: str, env: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result of `rltrain_isaaclab.answer.answer`.

    Args:
        task: the task's name.
        env: the user's `env.` options.

    Raises:
        UsageError: an option is wrong, Isaac Lab could not be started, or the task's configuration
            is broken.
    """
    found = _ask(task, json.dumps(env, sort_keys=True))
    if found is not None and "refused" in found:
        raise UsageError(found["refused"])
    return found


@functools.cache
def _ask(task: str, env: str) -> dict[str, Any] | None:
    from rltrain.launch import environments_are_made_here

    here = environments_are_made_here() and not _has_app()
    return _ask_here(task, env) if here else _ask_elsewhere(task, env)


def _has_app() -> bool:
    """Return whether Isaac Lab is of a version that always needs Isaac Sim, or finds it."""
    lab = importlib.util.find_spec("isaaclab")
    launcher = lab and lab.origin and Path(lab.origin).parent / "app" / "sim_launcher.py"
    return not launcher or not launcher.is_file() or bool(importlib.util.find_spec("isaacsim"))


def _ask_here(task: str, env: str) -> dict[str, Any] | None:
    from rltrain_isaaclab.answer import answer

    quiet = io.StringIO()  # Isaac Lab names each file that it reads.
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        found: dict[str, Any] | None = json.loads(json.dumps(answer(task, json.loads(env))))
    return found


def _ask_elsewhere(task: str, env: str) -> dict[str, Any] | None:
    from rltrain.launch import hide_rank_variables, private_folder

    environ = dict(os.environ)
    hide_rank_variables(environ)
    with private_folder() as folder:
        # The answer is written to a file, because Isaac Sim prints to stdout at any time.
        path = folder / "answer.json"
        command = [sys.executable, "-m", "rltrain_isaaclab.answer", task, env, str(path)]
        try:
            child = subprocess.run(
                command, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UsageError(
                f"The task {task!r}: Isaac Lab did not describe it within {TIMEOUT} s. Check that "
                "Isaac Lab starts on this machine, and try again."
            ) from error
        if not path.is_file():
            printed = "\n".join((child.stdout + child.stderr).splitlines()[-_LINES:])
            raise UsageError(
                f"The task {task!r}: Isaac Lab failed while it was asked for a description. "
                f"It printed:\n{printed}"
            )
        found: dict[str, Any] | None = json.loads(path.read_text())
    return found
