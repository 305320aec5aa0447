from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import rltrain

sys.path.insert(0, str(Path(__file__).parent))  # Makes the helpers beside the tests importable.


@pytest.fixture
def train(tmp_path):
    """Train briefly in this process, through the public function."""

    def run(**options):
        return rltrain.train(**_settings(tmp_path, options))

    return run


@pytest.fixture
def train_ranks(tmp_path):
    """Train briefly on the ranks of a fake world."""

    def run(world, **options):
        return world.train(**_settings(tmp_path, {"num_envs": 8, **options}))

    return run


@pytest.fixture
def norms():
    """By an optimizer's number of elements, the greatest norm of gradients with which it steps."""
    greatest = {}

    def note(optimizer, *_):
        all_of_it = [x for group in optimizer.param_groups for x in group["params"]]
        given = [x.grad.norm() for x in all_of_it if x.grad is not None]
        size, norm = sum(x.numel() for x in all_of_it), float(torch.stack(given).norm())
        greatest[size] = max(greatest.get(size, 0.0), norm)

    handle = register_optimizer_step_post_hook(note)
    yield greatest
    handle.remove()


def _settings(folder, options):
    return {
        "library": "rl_games",
        "num_envs": 16,
        "max_iterations": 2,
        "writers": (),
        "log_root": str(folder / "logs"),
        "agent": {},
        **options,
    }
