from __future__ import annotations

import torch

from rltrain_devkit import SuiteConformance
from rltrain_pendulum.plugin import TASK


class TestPendulum(SuiteConformance):
    suite = "pendulum"
    task = TASK
    env = {"max_episode_length": 20}
    ends = False  # Only the time limit ends an episode.


class TestPendulumWithJax(TestPendulum):
    framework = "jax"


def test_ranks_learn_and_end_equal(fake_world):
    runs = fake_world(2).train(library="rl_games", task=TASK, num_envs=8, max_iterations=2)
    first, second = (run.state() for run in runs)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_stopped_run_goes_on_bit_for_bit(fake_world):
    options = {"library": "rsl_rl", "task": TASK, "num_envs": 8}
    whole = fake_world(2).train(**options, max_iterations=3)[0].state()
    stopped = fake_world(2).train(**options, max_iterations=2)[0].result.checkpoint
    resumed = fake_world(2).train(**options, max_iterations=3, checkpoint=stopped)[0].state()
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())
