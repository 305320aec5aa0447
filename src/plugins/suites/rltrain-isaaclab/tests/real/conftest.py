"""Fixtures of the tests on the real Isaac Lab 3: with Newton, it needs no Isaac Sim and no GPU."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest
from helpers import rltrain_command

from rltrain.launch.preflight import made_here
from rltrain_devkit import SuiteConformance

ASSETS = Path(__file__).parents[1] / "assets"
"""A cart-pole and a ground, at the paths of Isaac Lab's own below its asset root."""
ANT = "Isaac/Robots/IsaacSim/Ant/ant_instanceable.usd"


@pytest.fixture(scope="session", autouse=True)
def asset_root(tmp_path_factory):
    """Lay out robots and grounds where Isaac Lab looks for those of its server."""
    newton = importlib.util.find_spec("newton")
    assert newton is not None
    root = tmp_path_factory.mktemp("assets")
    shutil.copytree(ASSETS, root, dirs_exist_ok=True)
    (root / ANT).parent.mkdir(parents=True)
    shutil.copy(Path(newton.origin).parent / "examples/assets/ant.usda", root / ANT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISAACSIM_ASSET_ROOT", str(root))
        yield root


@pytest.fixture(scope="session", autouse=True)
def compiled(pytestconfig):
    """Keep what Warp compiles, a minute's work, for all processes and later test runs."""
    folder = os.environ.get("WARP_CACHE_PATH") or str(pytestconfig.rootpath / ".cache" / "warp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARP_CACHE_PATH", folder)
        yield folder


@pytest.fixture(autouse=True)
def standin():
    """Take the place of the stand-in's fixture: here, `isaaclab` is the installed one."""


@pytest.fixture(autouse=True)
def _arguments(monkeypatch):
    monkeypatch.setattr("sys.argv", ["rltrain", "--flag-of-ours"])


@pytest.fixture(autouse=True)
def _asked_here():
    """Describe tasks in this process: another one would take ten seconds for each."""
    with made_here(True):
        yield


@pytest.fixture
def rltrain():
    """Return a function that runs `rltrain ARGUMENTS` as a user does, in a bounded time."""

    def run(*arguments, status=0):
        done = rltrain_command(*map(str, arguments), timeout=280)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def make():
    """Return a function that makes environments in this process, as a run does.

    A process starts Isaac Lab once, and has one task's environments at a time: those that were made
    before are closed.
    """
    made = []

    def close():
        while made:
            made.pop().close()

    def make(task, num_envs=4, framework="torch", renders=False, **env):
        close()
        kit = SuiteConformance()
        kit.suite, kit.task, kit.num_envs, kit.framework = "isaaclab", task, num_envs, framework
        made.append(kit.make(env, renders))
        return made[-1]

    yield make
    close()
