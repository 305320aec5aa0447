"""Puts the stand-in for Isaac Lab on the path, because Isaac Sim runs on few machines."""

from __future__ import annotations

import atexit
import sys
from pathlib import Path

import pytest

from rltrain_isaaclab import compat

STANDIN = Path(__file__).parent / "standin"


@pytest.fixture(autouse=True)
def standin(monkeypatch):
    """Put the stand-in first on the path, in this process and in those that it starts."""
    monkeypatch.syspath_prepend(str(STANDIN))
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setattr("sys.argv", ["rltrain", "--flag-of-ours"])
    # Every test starts like a new process, in which the app does not run yet.
    monkeypatch.setattr(compat, "_held", [])
    if "isaaclab.app" in sys.modules:
        sys.modules["isaaclab.app"].RUNNING.clear()
    yield STANDIN
    atexit.unregister(compat._end)  # It would end the test run with status 0.


@pytest.fixture
def agent_file():
    """Return a function that gives the path of one of the stand-in's options files."""
    return lambda name: str(STANDIN / "isaaclab_tasks" / "agents" / name)
