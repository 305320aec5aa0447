"""Asks Isaac Lab about a task, before a run starts. Light: another process does the work.

What has to be known before ranks are started (how many environments, what actions, which options)
is in Isaac Lab's registry, which Isaac Lab 2 lets nobody import before its app runs. Starting the
app once more costs some 20 s; starting ranks with wrong options costs that on every rank.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.launch import hide_rank_variables

__all__ = ["ask"]

TIMEOUT = 600
"""Seconds; when Isaac Sim starts for the first time on a machine, it fills its caches."""

_LINES = 15
"""Of what the process printed last, so many are shown if it failed."""


@functools.cache
def ask(task: str) -> dict[str, Any] | None:
    """Return what Isaac Lab knows of a task, as `rltrain_isaaclab.answer.answer` does.

    Raises:
        UsageError: Isaac Lab could not be started, or the task's configuration is broken.
    """
    environ = dict(os.environ)
    hide_rank_variables(environ)
    with tempfile.TemporaryDirectory(prefix="rltrain-isaaclab-") as folder:
        # A file, because Isaac Sim prints on stdout at any time.
        path = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "rltrain_isaaclab.answer", task, str(path)]
        try:
            child = subprocess.run(
                command, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UsageError(
                f"Isaac Lab did not say within {TIMEOUT} s what it knows of the task {task!r}."
            ) from error
        if not path.is_file():
            printed = "\n".join((child.stdout + child.stderr).splitlines()[-_LINES:])
            raise UsageError(f"Isaac Lab could not be asked about the task {task!r}:\n{printed}")
        found: dict[str, Any] | None = json.loads(path.read_text())
    return found
