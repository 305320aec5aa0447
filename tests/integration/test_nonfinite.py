"""One number that is far too large, and --on-nonfinite skip: the same on one rank as on two."""

from __future__ import annotations

import json

import pytest
import torch

pytestmark = pytest.mark.slow

TASK = '''
import os

import gymnasium
import numpy as np


class Huge(gymnasium.Env):
    """Once on rank 0, its reward is a number whose square float32 cannot hold."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        huge = self.steps == 37 and os.environ.get("RANK", "0") == "0"
        return self.observation_space.sample(), 3e38 if huge else 1.0, False, False, {}


gymnasium.register("Huge-v0", entry_point="huge:Huge", max_episode_steps=20)
'''

OPTIONS = {
    "rl_games": (
        *("agent.params.config.horizon_length=16", "agent.params.config.minibatch_size=32"),
        "agent.params.config.save_frequency=1",
    ),
    "rsl_rl": ("agent.num_steps_per_env=16", "agent.save_interval=1"),
    "skrl": ("agent.agent.rollouts=16", "agent.agent.experiment.checkpoint_interval=16"),
}


def tensors(state, name=""):
    """Yield the tensors of a checkpoint that are learned, by name."""
    if isinstance(state, torch.Tensor):
        yield name, state
    elif isinstance(state, dict):
        for key, value in state.items():
            if key != "rltrain":  # With rl_games' meters of returns, which the number is in.
                yield from tensors(value, f"{name}.{key}")


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("library", OPTIONS)
def test_one_bad_number_neither_stays_nor_ends_learning(command, library, ranks):
    (command.folder / "huge.py").write_text(TASK)
    words = ("--library", library, "--task", "huge:Huge-v0", "--num-envs", "4", *OPTIONS[library])
    words = (*words, "--max-iterations", "8", "--on-nonfinite", "skip")
    place = ("--distributed", "--nproc-per-node", "2") if ranks == 2 else ()
    run = command(*words, *place)
    assert run.returncode == 0, run.stderr
    files = sorted((run.folder / "checkpoints").glob("*.p*"), key=lambda file: file.stat().st_mtime)
    before, last = [
        dict(tensors(torch.load(file, map_location="cpu", weights_only=False)))
        for file in (files[-3], files[-1])
    ]
    assert [name for name, x in last.items() if not x.isfinite().all()] == []
    learned = [name for name, x in last.items() if x.ndim == 2 and not x.equal(before[name])]
    assert learned
    lines = map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
    counts = [line["values"].get("nonfinite/gradients", 0) for line in lines if "values" in line]
    assert counts[3:] == [counts[3]] * 5  # None after that of its iteration, or the next.
