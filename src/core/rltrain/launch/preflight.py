"""Checks that need a framework or a simulator, made before a run starts.

A process that will start ranks makes these checks in a child process. It stays light, and it never
touches CUDA: after even counting devices, its forked children could not use CUDA.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from rltrain.errors import RltrainError
from rltrain.ranks.world import hide_rank_variables
from rltrain.specs import load_object

TIMEOUT = 120
"""In seconds. Importing a framework from a cold network disk can take a minute."""

_HERE = ContextVar("rltrain environments are made here", default=False)

_CODE = """
import json, sys
from rltrain.errors import RltrainError
from rltrain.specs import load_object
try:
    answer = None, load_object(sys.argv[1])(*json.loads(sys.argv[2]))
except RltrainError as error:
    answer = str(error), None
print("\\n" + json.dumps(answer))
"""


def preflight(path: str, *arguments: Any, in_child: bool) -> Any:
    """Return what the function "package.module:function" returns: in this process, or in a child.

    Arguments and result must be JSON-serializable. What it refuses is raised as `RltrainError`.
    """
    if not in_child:
        return load_object(path)(*arguments)
    environ = dict(os.environ)
    hide_rank_variables(environ)
    command = [sys.executable, "-c", _CODE, path, json.dumps(arguments)]
    try:
        child = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RltrainError(f"{path} did not answer within {TIMEOUT} s.") from error
    if child.returncode != 0:
        raise RltrainError(f"{path} failed:\n{child.stderr}")
    refusal, result = json.loads(child.stdout.splitlines()[-1])
    if refusal is not None:
        raise RltrainError(refusal)
    return result


def environments_are_made_here() -> bool:
    """Return whether this process will make the environments of the run that is being planned.

    For `SuiteSpec.describe`: what it imports and starts to describe a task is then not lost. A
    process that starts ranks should import no simulator, which could use memory of their GPUs.
    """
    return _HERE.get()


@contextlib.contextmanager
def made_here(here: bool) -> Iterator[None]:
    """Say so inside the context."""
    token = _HERE.set(here)
    try:
        yield
    finally:
        _HERE.reset(token)
