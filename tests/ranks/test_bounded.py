"""What the user's code does before any rank runs has a bound, and is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rltrain.ranks.watch.patience import bounded

TASK = """
import time
def make():
    time.sleep(60)
"""
LOOK = """
from slow_task import make
from rltrain.ranks.watch.patience import bounded
with bounded("Looking at the task Slow", {"start": 1.0}):
    make()
"""


def test_a_task_that_cannot_be_made_is_named_with_its_line(tmp_path):
    (tmp_path / "slow_task.py").write_text(TASK)
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "rltrain: Looking at the task Slow did not end within 1 s (--hang-timeout start=1): it "
        f"stands at {tmp_path}/slow_task.py:4 in make.\n"
    )


@pytest.mark.parametrize("timeout", [None, {"start": 0.0}, {"start": 600.0}])
def test_what_ends_in_time_goes_on(timeout):
    with bounded("Looking at the task Fast", timeout):
        pass
