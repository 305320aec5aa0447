"""The examples are separate distributions: each, installed, passes its own tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = sorted(
    path.parent for path in Path(__file__).parents[2].glob("examples/*/pyproject.toml")
)
ADAPTED = {"rltrain-sb3": "stable_baselines3"}
"""What an example adapts and this repository does not install."""


def module(*words, cwd, **variables):
    # On small tensors, several threads only wait for each other.
    return run(sys.executable, "-m", *words, cwd=cwd, OMP_NUM_THREADS="1", **variables)


def skip_without(module):
    pytest.importorskip(module, reason=f"{module} is not installed: pip install {module}")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the examples into a folder, so that the environment stays as it is."""
    folder = tmp_path_factory.mktemp("examples")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--target", folder)
    module("uv", "pip", "install", *options, *EXAMPLES, cwd=folder)
    return str(folder)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_passes_its_own_tests(example, installed):
    if example.name in ADAPTED:
        skip_without(ADAPTED[example.name])
    shown = module("pytest", "-q", "-p", "no:cacheprovider", cwd=example, PYTHONPATH=installed)
    assert " passed" in shown


def test_they_train_together_on_two_real_ranks(installed, tmp_path):
    skip_without("stable_baselines3")
    ranks = ("--distributed", "--nproc-per-node", 2, "--num-envs", 16, "--max-iterations", 2)
    plugins = ("--library", "sb3", "--grad-sync", "fp16")
    shown = module("rltrain", *plugins, *ranks, cwd=tmp_path, PYTHONPATH=installed)
    assert "iteration 2/2" in shown
    assert list(tmp_path.rglob("ppo_2.zip"))
