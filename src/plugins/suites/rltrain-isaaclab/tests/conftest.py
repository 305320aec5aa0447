"""Puts the stand-in for Isaac Lab on the path, because Isaac Sim runs on few machines.

Where Isaac Lab 3 is installed, the tests in real/ run instead.
"""

from __future__ import annotations

import atexit
import os
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from rltrain_isaaclab import app

STANDIN = Path(__file__).parent / "standin"
REAL = Path(__file__).parent / "real"
INSTALLED = any(each.version.startswith("3.") for each in distributions(name="isaaclab"))


def pytest_collection_modifyitems(items):
    """Skip the stand-in's tests or the real one's: both packages have the same name."""
    for item in items:
        real = item.path.is_relative_to(REAL)
        if real and not INSTALLED:
            item.add_marker(pytest.mark.skip(reason="Isaac Lab 3 is not installed"))
        elif item.path.is_relative_to(REAL.parent) and INSTALLED and not real:
            item.add_marker(pytest.mark.skip(reason="Isaac Lab 3 is installed: see tests/real"))


@pytest.fixture(autouse=True)
def standin(monkeypatch):
    """Put the stand-in first on the path, in this process and in those that it starts."""
    monkeypatch.syspath_prepend(str(STANDIN))
    monkeypatch.setenv("PYTHONPATH", str(STANDIN), prepend=os.pathsep)
    monkeypatch.setattr("sys.argv", ["rltrain", "--flag-of-ours"])
    # Every test starts like a new process, in which the app does not run yet.
    monkeypatch.setattr(app, "_held", [])
    if "isaaclab.app" in sys.modules:
        sys.modules["isaaclab.app"].RUNNING.clear()
    yield STANDIN
    atexit.unregister(app._end)  # It would end the test run with status 0.


@pytest.fixture
def agent_file():
    """Return a function that gives the path of one of the stand-in's options files."""
    return lambda name: str(STANDIN / "isaaclab_tasks" / "agents" / name)


@pytest.fixture(scope="session")
def short():
    """Return options, by library, of iterations of four steps; for four environments or more."""
    return {
        "rl_games": {"params.config.horizon_length": 4, "params.config.minibatch_size": 8},
        "rsl_rl": {"num_steps_per_env": 4, "algorithm.num_mini_batches": 2},
        "skrl": {"agent.rollouts": 4, "agent.mini_batches": 2},
    }
