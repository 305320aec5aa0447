"""Films runs in a process of its own, which draws with EGL: MuJoCo decides so when imported.

It reads a command's words, a JSON list, from each line of stdin, and answers each with a line.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys


def answer(words: list[str]) -> tuple[int, str]:
    """Run a command; return its exit status, and what it printed."""
    from rltrain.cli import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = main(words)
    return status, printed.getvalue()


if __name__ == "__main__":
    os.environ["MUJOCO_GL"] = "egl"
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
