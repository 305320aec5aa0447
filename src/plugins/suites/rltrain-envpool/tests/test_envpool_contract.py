"""What the suite assumes about EnvPool."""

from __future__ import annotations

import os

import numpy as np
import pytest

envpool = pytest.importorskip("envpool")

from envpool.registration import registry  # noqa: E402

from rltrain_envpool.tasks import _IMAGES, _NOT_OPTIONS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")


def task_threads():
    return len(os.listdir("/proc/self/task"))


def test_the_registry_distinguishes_task_families():
    assert list(registry.specs) == envpool.list_all_envs()
    assert {family for family, _, _ in registry.specs.values()} >= _IMAGES


def test_every_configuration_has_the_fields_that_users_may_not_set():
    for task in ("HalfCheetah-v4", "CartPole-v1"):
        assert set(envpool.make_spec(task).config._fields) >= _NOT_OPTIONS


def test_envpool_resets_in_the_next_step_and_a_partial_reset_acts_at_once():
    def pool():
        made = envpool.make_gymnasium("CartPole-v1", num_envs=3, max_episode_steps=2, seed=1)
        made.reset()
        for _ in range(2):
            truncations = made.step(np.zeros(3, int))[3]
        assert truncations.all()
        return made

    _, _, terminations, truncations, info = pool().step(np.zeros(3, int))
    assert info["elapsed_step"].tolist() == [0, 0, 0]
    assert not (terminations | truncations).any()
    made = pool()
    _, info = made.reset(np.array([2, 0], np.int32))
    assert (info["env_id"].tolist(), info["elapsed_step"].tolist()) == ([2, 0], [0, 0])
    assert made.step(np.zeros(3, int))[-1]["elapsed_step"].tolist() == [1, 0, 1]


def test_every_call_returns_arrays_of_its_own():
    """The suite passes them on without a copy."""
    pool = envpool.make_gymnasium("CartPole-v1", num_envs=3, seed=1)
    kept = [pool.reset()[0]]
    for _ in range(30):
        observations, rewards, terminations, *_ = pool.step(np.ones(3, int))
        kept += [observations, rewards]
        if terminations.any():
            kept.append(pool.reset(np.flatnonzero(terminations).astype(np.int32))[0])
    copies = [array.copy() for array in kept]
    for _ in range(30):
        pool.step(np.ones(3, int))
    for array, copied in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copied)
    assert kept[0].flags.writeable


def test_a_termination_in_the_last_step_is_reported_as_a_truncation():
    limit = 1
    while True:
        pool = envpool.make_gymnasium("CartPole-v1", max_episode_steps=limit + 1, seed=[0])
        pool.reset()
        for _ in range(limit):
            terminated = pool.step(np.ones(1, int))[2]
        if terminated:
            break
        limit += 1
    pool = envpool.make_gymnasium("CartPole-v1", max_episode_steps=limit, seed=[0])
    pool.reset()
    for _ in range(limit):
        _, _, terminated, truncated, _ = pool.step(np.ones(1, int))
    assert (terminated.tolist(), truncated.tolist()) == ([False], [True])


def test_close_keeps_the_threads_and_deletion_stops_them():
    before = task_threads()
    pool = envpool.make_gymnasium("CartPole-v1", num_envs=2, num_threads=2)
    pool.reset()
    pool.close()
    assert task_threads() > before
    del pool
    assert task_threads() == before
