"""What bash offers at the tab key, asked as a user's shell asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from made_up_runs import make_run

BIN = Path(sys.executable).parent
"""Of `rltrain` and `register-python-argcomplete`, as the shell finds them."""
IN_BASH = """
eval "$(register-python-argcomplete rltrain)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete rltrain
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completer(here, **variables):
    """Return what bash offers for a line, in a folder with two runs and a file."""
    for name in ("one", "two"):
        make_run(here / "logs" / "rl_games" / "T" / name)
    (here / "b.yaml").touch()
    (here / "below").mkdir()
    paths = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": paths, "HOME": str(here), **variables}

    def offered(line, **more):
        found = subprocess.run(
            [*("bash", "--norc", "-c", IN_BASH, "bash"), line],
            **{"cwd": here, "env": {**environ, **more}, "timeout": 60},
            **{"capture_output": True, "text": True, "check": True},
        )
        assert found.stderr == ""
        return {each.strip() for each in found.stdout.splitlines()} - {""}

    return offered
