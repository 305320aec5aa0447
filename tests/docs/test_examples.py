"""The examples are separate distributions: each, installed, passes its own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = sorted(
    path.parent for path in Path(__file__).parents[2].glob("examples/*/pyproject.toml")
)
ADAPTED = {"rltrain-sb3": "stable_baselines3"}
"""What an example adapts and this repository does not install."""


def run(*command, cwd, **variables):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=cwd,
        # On small tensors, several threads only wait for each other.
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def skip_without(module):
    pytest.importorskip(module, reason=f"{module} is not installed: pip install {module}")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the examples into a folder, so that the environment stays as it is."""
    folder = tmp_path_factory.mktemp("examples")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--target", folder)
    run("uv", "pip", "install", *options, *EXAMPLES, cwd=folder)
    return str(folder)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_passes_its_own_tests(example, installed):
    if example.name in ADAPTED:
        skip_without(ADAPTED[example.name])
    shown = run("pytest", "-q", "-p", "no:cacheprovider", cwd=example, PYTHONPATH=installed)
    assert " passed" in shown


def test_they_train_together_on_two_real_ranks(installed, tmp_path):
    skip_without("stable_baselines3")
    ranks = ("--distributed", "--nproc-per-node", 2, "--num-envs", 16, "--max-iterations", 2)
    plugins = ("--library", "sb3", "--grad-sync", "fp16")
    shown = run("rltrain", *plugins, *ranks, cwd=tmp_path, PYTHONPATH=installed)
    assert "iteration 2/2" in shown
    assert list(tmp_path.rglob("ppo_2.zip"))
