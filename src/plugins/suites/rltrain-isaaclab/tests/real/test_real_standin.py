"""The stand-in for Isaac Lab looks like Isaac Lab, so that what is tested on it alone holds."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("task", ["Isaac-Cartpole", "Isaac-Cartpole-Direct"])
def test_the_stand_in_is_like_isaac_lab(task, make):
    path = [str(TESTS / "standin"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    shown = subprocess.run(
        [sys.executable, str(TESTS / "surface.py"), "Isaac-Cartpole-v0"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    line = next(line for line in shown.stdout.splitlines() if line.startswith("SURFACE "))
    standin = json.loads(line.removeprefix("SURFACE "))
    real = runpy.run_path(str(TESTS / "surface.py"))["surface"](make(task, num_envs=3)._env)
    assert standin == real
