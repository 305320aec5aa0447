"""Checks that need a framework run in one short process, so that the launcher stays light.

The launcher must never touch CUDA, not even to count devices: its children could not use it then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from rltrain.errors import RltrainError
from rltrain.ranks import hide_rank_variables

__all__ = ["call_in_child"]

TIMEOUT = 120
"""Seconds; importing a framework from a cold network disk can take a minute."""

_CODE = """
import json, sys
from rltrain.plugins import load_object
result = load_object(sys.argv[1])(*json.loads(sys.argv[2]))
print("\\n" + json.dumps(result))
"""


def call_in_child(path: str, *arguments: Any) -> Any:
    """Call the function that an import string names in a process of its own.

    Args:
        path: "package.module:function".
        *arguments: what JSON can carry.

    Returns:
        What the function returned, through JSON.

    Raises:
        RltrainError: the process failed.
    """
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
    return json.loads(child.stdout.splitlines()[-1])
