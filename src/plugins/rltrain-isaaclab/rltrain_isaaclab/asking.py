"""Asks Isaac Lab about a task before a run starts. Light: a separate process does the work.

The number of environments, the actions and the options must be known before the ranks start. They
are in Isaac Lab's registry, which in Isaac Lab 2 cannot be imported before the app runs. Starting
the app an extra time costs about 20 s; starting ranks with wrong options costs that on every rank.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from rltrain.errors import UsageError
from rltrain.launch import hide_rank_variables, private_folder

__all__ = ["ask"]

TIMEOUT = 600
"""Seconds. Long, because Isaac Sim fills its caches at its first start on a machine."""

_LINES = 15
"""How many of the last lines that the process printed are shown if it failed."""


def ask(task: str, env: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result of `rltrain_isaaclab.answer.answer`, computed in a separate process.

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
