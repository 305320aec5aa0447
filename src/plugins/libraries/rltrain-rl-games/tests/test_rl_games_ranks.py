"""Whole trainings on four ranks of a fake world."""

from __future__ import annotations

import pytest

from rltrain.testing import FakeWorld

CONTINUOUS = {"task": "rltrain/CartPoleContinuous-v1"}
DISCRETE = {"task": "rltrain/CartPole-v1"}


def test_an_update_costs_one_collective_for_everything_that_it_normalizes(train_ranks):
    world = FakeWorld(2)
    options = {"params.config.mini_epochs": 3, "params.config.minibatch_size_per_env": 8}
    train_ranks(world, agent=options)
    moments = [item for item in world.trace if item.callers[0].endswith(" in pool_moments")]
    assert len(moments) == 2
    # Four mini-batches of observations, values, returns and advantages.
    assert moments[0].bytes == 8 * (4 * (1 + 2 * 4) + 3 * (1 + 2 * 1))


@pytest.mark.parametrize("kind", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])
@pytest.mark.parametrize(
    ("options", "collectives"),
    [
        ({"lr_schedule": "adaptive", "schedule_type": "standard"}, 1),
        ({"lr_schedule": "adaptive", "schedule_type": "legacy"}, 1),
        ({"lr_schedule": "linear"}, 0),
        ({"lr_schedule": "identity"}, 0),
    ],
)
def test_only_the_last_divergence_of_an_epoch_needs_a_collective(
    train_ranks, kind, options, collectives
):
    world = FakeWorld(2)
    agent = {f"params.config.{name}": value for name, value in options.items()}
    agent |= {"params.config.mini_epochs": 3, "params.config.minibatch_size_per_env": 8}
    train_ranks(world, agent=agent, max_iterations=1, **kind)
    asked = [item for item in world.trace if "deferred_mean.py" in item.callers[0]]
    assert len(asked) == collectives


@pytest.mark.slow
def test_a_linear_schedule_over_frames_counts_those_of_all_ranks(train_ranks, scalars):
    batch = 8 * 32
    options = {
        "params.config.lr_schedule": "linear",
        "params.config.schedule_entropy": True,
        "params.config.max_epochs": -1,
        "params.config.max_frames": 4 * 2 * batch,
        "params.config.learning_rate": 1e-3,
    }
    runs = train_ranks(FakeWorld(2), agent=options, max_iterations=None, observers=[scalars])
    rates = [values["info/last_lr"] for values in runs[0].observers[0].values]
    # An epoch's frames count from the next epoch on; the last update's value is recorded.
    assert rates == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-4], abs=2e-6)


def test_phases_and_losses_are_recorded(train_ranks, scalars):
    runs = train_ranks(FakeWorld(2), observers=[scalars])
    values = runs[0].observers[0].values[-1]
    phases = ("time/rollout", "time/rollout (min)", "time/rollout (max)", "time/update")
    assert {*phases, "losses/a_loss", "losses/c_loss", "info/kl", "info/last_lr"} <= set(values)
    assert not any(name.startswith(("performance", "rewards")) for name in values)


def test_a_rank_without_an_episode_uses_the_others_metrics(train_ranks):
    options = {"params.config.horizon_length": 8, "params.config.minibatch_size": 8}
    runs = train_ranks(FakeWorld(4), num_envs=1, max_iterations=5, agent=options)
    assert runs[0].result.episode_return > 0
