"""Several ranks of a fake world: whole trainings, and pooled statistics."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
import torch
from skrl_fakes import PLACE

from rltrain.testing import FakeWorld, differing
from rltrain_skrl import bootstrap
from rltrain_skrl.torch.scaler import PooledScaler

bootstrap.import_skrl()

from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402

TASKS = ["rltrain/CartPoleContinuous-v1", "rltrain/CartPole-v1"]


@pytest.mark.parametrize("task", TASKS, ids=["continuous", "discrete"])
def test_ranks_learn_from_data_of_their_own_and_end_equal(train_ranks, task, local_gradients):
    runs = train_ranks(FakeWorld(4, rank_local=PLACE), task=task, observers=[local_gradients])
    first = [run.observers[0].given[0] for run in runs]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(first, 2))
    assert not differing(runs)
    assert {run.result.iterations for run in runs} == {2}


def test_a_mini_batch_costs_one_gradient_collective(train_ranks, local_gradients):
    world = FakeWorld(2, rank_local=PLACE)
    iterations, rollouts, epochs, batches = 3, 4, 2, 2
    agent = {"rollouts": rollouts, "learning_epochs": epochs, "mini_batches": batches}
    agent["experiment.checkpoint_interval"] = rollouts
    agent["learning_rate_scheduler"] = "KLAdaptiveLR"
    runs = train_ranks(
        world,
        max_iterations=iterations,
        agent={f"agent.{name}": value for name, value in agent.items()},
        observers=[local_gradients],
    )
    callers = Counter(item.callers[0].rpartition("/")[2].partition(":")[0] for item in world.trace)
    assert callers["gradients.py"] == iterations * epochs * batches
    assert callers["gradients.py"] == len(runs[0].observers[0].given)
    # Observations in the first epoch; of values, those that were predicted and those that came.
    assert callers["scaler.py"] == iterations * (batches + 2)
    assert callers["ppo.py"] == iterations * epochs, "the divergence, once an epoch"
    saved = Path(runs[0].result.run_dir, "checkpoints")
    assert len(list(saved.iterdir())) == iterations
    assert runs[1].result.checkpoint is None


def test_pooled_statistics_are_those_of_all_data():
    torch.manual_seed(0)
    spread = torch.tensor([1.0, 0.1, 5.0])
    steps = [offset + torch.randn(40, 10, 3) * spread for offset in (1000.0, 1000.5)]
    x = torch.full((2, 3), 1001.0)

    def on_rank(group):
        scaler = PooledScaler(3, device="cpu", group=group)
        for data in steps:
            scaler(data.chunk(2)[group.rank], train=True)
        return scaler, scaler(x)

    world = FakeWorld(2, rank_local=PLACE)
    (pooled, standardised), (other, _) = world.run(on_rank)
    assert len(world.trace) == len(steps)
    alone = RunningStandardScaler(3, device="cpu")
    for data in steps:
        alone(data, train=True)
    assert torch.allclose(pooled.running_mean, alone.running_mean, rtol=1e-6)
    # The variance within a half has one degree of freedom less: 1 in 400.
    assert torch.allclose(pooled.running_variance, alone.running_variance, rtol=4e-3)
    assert pooled.current_count == alone.current_count
    assert pooled.state_dict().keys() == alone.state_dict().keys()
    assert torch.allclose(standardised, alone(x), atol=2e-2)
    equal = zip(pooled.state_dict().values(), other.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in equal)


def test_without_training_nothing_is_reduced():
    def on_rank(group):
        scaler = PooledScaler(3, device="cpu", group=group)
        scaler(torch.ones(4, 3))
        scaler(torch.ones(4, 3), inverse=True)
        assert scaler(None, train=True) is None

    world = FakeWorld(2, rank_local=PLACE)
    world.run(on_rank)
    assert not world.trace
