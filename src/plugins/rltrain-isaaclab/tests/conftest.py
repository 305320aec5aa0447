"""Puts the stand-in for Isaac Lab on the path; Isaac Sim runs on few machines."""

from __future__ import annotations

import atexit
import sys
from pathlib import Path

import pytest

from rltrain_isaaclab import compat

STANDIN = Path(__file__).parent / "standin"


@pytest.fixture(autouse=True)
def standin(monkeypatch):
    """The stand-in comes first in this process and in those that it starts."""
    monkeypatch.syspath_prepend(str(STANDIN))
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setattr("sys.argv", ["rltrain", "--flag-of-ours"])
    # Every test begins as a new process would, before the app runs.
    monkeypatch.setattr(compat, "_held", [])
    if "isaaclab.app" in sys.modules:
        sys.modules["isaaclab.app"].RUNNING.clear()
    yield STANDIN
    atexit.unregister(compat._end)  # It would end the tests with status 0.


@pytest.fixture
def agent_file():
    """Return the path of one of the stand-in's files of options."""
    return lambda name: str(STANDIN / "isaaclab_tasks" / "agents" / name)
