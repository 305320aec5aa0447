"""What the user's code does before any rank runs has a bound, and its line is named."""

from __future__ import annotations

import time

import pytest
from helpers import python

from rltrain.ranks.hangs import bounded

TASK = """
import time
def make():
    time.sleep(60)
"""
LOOK = """
from slow_task import make
from rltrain.ranks.hangs import bounded
with bounded({"start": 1.0}):
    make()
"""


@pytest.mark.slow
def test_a_task_that_cannot_be_made_is_named_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "slow_task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    done = python(LOOK, check=False)
    assert done.returncode == 1
    first, _, where, *_ = done.stderr.splitlines()
    assert first == "Timeout (0:00:01)!"
    assert where == f'  File "{tmp_path}/slow_task.py", line 4 in make'


@pytest.mark.parametrize("timeout", [None, {"start": 0.0}, {"start": 0.1}])
def test_what_ends_in_time_continues(timeout):
    with bounded(timeout):
        pass
    time.sleep(0.2)
