"""Checks that need a framework, made before a run starts.

A process that will start ranks makes these checks in a child process. It stays light, and it never
touches CUDA: after even counting devices, its forked children could not use CUDA.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from rltrain.errors import RltrainError
from rltrain.specs import load_object
from rltrain_ranks.variables import hide_rank_variables

__all__ = ["preflight"]

TIMEOUT = 120
"""In seconds. Importing a framework from a cold network disk can take a minute."""

_CODE = """
import json, sys
from rltrain.errors import RltrainError
from rltrain.specs import load_object
refusal, result = None, None
try:
    result = load_object(sys.argv[1])(*json.loads(sys.argv[2]))
except RltrainError as error:
    refusal = str(error)
print("\\n" + json.dumps([refusal, result]))
"""


def preflight(path: str, *arguments: Any, in_child: bool) -> Any:
    """Call the function that an import string names.

    Args:
        path: "package.module:function".
        *arguments: must be JSON-serializable.
        in_child: whether to call it in a child process, or in this one, which starts no ranks.

    Returns:
        What the function returned, which must be JSON-serializable too.

    Raises:
        RltrainError: the function raised one, or the child failed.
    """
    return _call_in_child(path, *arguments) if in_child else load_object(path)(*arguments)


def _call_in_child(path: str, *arguments: Any) -> Any:
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
