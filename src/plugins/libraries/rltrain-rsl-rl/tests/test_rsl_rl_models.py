"""Collectives, and models and mini-batches that are refused, on the ranks of a fake world."""

from __future__ import annotations

import pytest
from rsl_rl_stubs import recurrent

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld

SHORT = {
    "num_steps_per_env": 16,
    "algorithm.num_learning_epochs": 2,
    "algorithm.num_mini_batches": 2,
    "algorithm.schedule": "adaptive",
}


def test_rsl_rl_calls_no_collective_by_itself(train_ranks):
    world = FakeWorld(2)
    train_ranks(world, agent={**SHORT, "algorithm.desired_kl": 0.01})
    assert not [item for item in world.trace if "/rsl_rl/" in item.callers[0]]


def test_environments_that_do_not_divide_into_recurrent_mini_batches_are_refused(train_ranks):
    with pytest.raises(UsageError, match=r"num_mini_batches=2: does not divide a rank's 3 env"):
        train_ranks(FakeWorld(2), agent={**SHORT, **recurrent("gru")}, num_envs=3)


def test_normalizing_images_is_refused(train_ranks):
    task = "rltrain/CartPoleContinuousCamera-v1"
    options = {**SHORT, "actor.obs_normalization": True}
    with pytest.raises(UsageError, match=r"agent\.actor\.obs_normalization=false"):
        train_ranks(FakeWorld(2), task=task, agent=options)
