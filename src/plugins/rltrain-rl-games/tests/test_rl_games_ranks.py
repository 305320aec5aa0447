"""Whole trainings on four ranks of a fake world."""

from __future__ import annotations

import itertools

import pytest
import torch

from rltrain.testing import FakeWorld, differing

CONTINUOUS = {"task": "rltrain/CartPoleContinuous-v1"}
DISCRETE = {"task": "rltrain/CartPole-v1"}
RECURRENT = {
    "agent": {
        "+params.network.rnn": {"name": "gru", "units": 16, "layers": 1},
        "params.config.seq_length": 8,
    }
}


@pytest.mark.parametrize(
    "options", [CONTINUOUS, DISCRETE, RECURRENT], ids=["continuous", "discrete", "recurrent"]
)
def test_ranks_learn_from_data_of_their_own_and_end_equal(train_ranks, options, local_gradients):
    runs = train_ranks(FakeWorld(4), observers=[local_gradients], **options)
    first = [run.observers[0].given[0] for run in runs]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(first, 2))
    assert not differing(runs)
    assert {run.result.iterations for run in runs} == {2}
    assert {run.result.frames for run in runs} == {4 * 2 * 8 * 32}
    assert {run.result.episode_return for run in runs} == {runs[0].result.episode_return}
    assert [run.result.checkpoint is not None for run in runs] == [True, False, False, False]


def test_a_mini_batch_costs_one_gradient_collective(train_ranks, local_gradients):
    world = FakeWorld(2)
    options = {"params.config.mini_epochs": 3, "params.config.minibatch_size_per_env": 8}
    runs = train_ranks(world, agent=options, observers=[local_gradients])
    gradients = [item for item in world.trace if item.callers[0].endswith(" in reduce")]
    batches = 2 * 3 * (32 // 8)
    assert len(gradients) == len(runs[0].observers[0].given) == batches


def test_a_rank_without_an_episode_takes_the_others_figures(train_ranks):
    options = {"params.config.horizon_length": 8, "params.config.minibatch_size": 8}
    runs = train_ranks(FakeWorld(4), num_envs=1, max_iterations=5, agent=options)
    assert runs[0].result.episode_return > 0
