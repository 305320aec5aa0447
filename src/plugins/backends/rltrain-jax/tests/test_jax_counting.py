"""Episodes, and numbers that are not finite, are counted in jax's arrays as in numpy's."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import pytest
from test_numbers import (  # noqa: F401
    maker,
    test_an_iteration_starts_without_findings,
    test_an_observation_names_its_group_and_environment,
    test_images_and_whole_numbers_pass,
    test_numbers_whose_sum_overflows_pass,
    test_skip_leaves_out_an_update_on_all_ranks,
    test_skip_puts_zero_in_their_place,
    test_the_first_reset_is_checked,
    test_what_breaks_first_is_named,
)
from test_statistics import (  # noqa: F401
    test_a_counter_continues_from_another,
    test_a_restart_forgets_unfinished_episodes,
    test_an_episode_both_terminated_and_truncated_counts_once,
    test_episodes_are_counted_exactly,
    test_inputs_are_not_changed,
    test_successes_are_counted_among_the_episodes_that_end,
)

from rltrain.data import pack_state, unpack_state
from rltrain.metrics.episodes import EpisodeCounter
from rltrain.metrics.numbers import EnvNumbers, Numbers
from rltrain_jax.arrays import JaxArrays

ARRAYS = JaxArrays()


@pytest.fixture
def array():
    """Make arrays, and counters of them, for the tests of the core."""
    made = maker((ARRAYS, jnp.asarray))
    made.counter = functools.partial(EpisodeCounter, ARRAYS)
    return made


@pytest.fixture
def checked():
    return maker((ARRAYS, jnp.array))


def test_counting_with_jax_is_one_program(caplog):
    """Not compiled again after it was read or restarted, and nothing is sent to or fro."""
    counter, none = EpisodeCounter(ARRAYS), jnp.zeros(3, bool)
    given = jnp.ones(3), none, none
    counter.step(*given)
    counter.take()
    with jax.log_compiles(), jax.transfer_guard("disallow"):
        for _ in range(3):
            counter.step(*given)
            with jax.transfer_guard("allow"):
                counter.take()
            counter.step(*given)
            counter.restart()
            counter.step(*given)
    assert not [r.message for r in caplog.records if "XLA compilation" in r.message]


def test_counting_with_jax_starts_at_zero_for_any_reward():
    counter, none = EpisodeCounter(ARRAYS), jnp.zeros(2, bool)
    counter.step(jnp.array([jnp.nan, 1.0]), none, none)
    counter.restart()
    counter.step(jnp.ones(2), ~none, none)
    assert counter.take()[:3] == (2, 2, 2)


def test_a_jax_counter_resumes_from_a_file():
    counter, other, done = EpisodeCounter(ARRAYS), EpisodeCounter(ARRAYS), jnp.ones(1, bool)
    counter.step(jnp.array([5.0]), ~done, ~done)
    by_framework = {"jax": ARRAYS}
    packed = pack_state(counter.get_state(), by_framework)
    other.set_state(unpack_state(packed, "cpu", by_framework))
    for one in (counter, other):
        one.step(jnp.array([1.0]), done, ~done)
    assert counter.take() == other.take() == (6, 2, 1, 0, 0)


def test_checks_wait_for_no_device():
    env, good, rewards = EnvNumbers(ARRAYS), jnp.ones((2, 3)), jnp.ones(2)
    env.reset(good)
    env.step(good, rewards)
    with jax.transfer_guard("disallow"):
        for _ in range(2):
            env.step(good, rewards)


def test_jax_names_the_path_of_a_gradient():
    numbers = Numbers("stop", ARRAYS)
    tree = {"policy": {"bias": jnp.ones(2), "kernel": jnp.ones((2, 2))}}
    sync = numbers.checked(lambda gradients: gradients, tree)
    sync(tree)
    sync({"policy": {"bias": jnp.ones(2), "kernel": jnp.full((2, 2), math.nan)}})
    assert numbers.count({}) == [0.0, 0.0, 1.0, 0.0, 0.0]
    error = numbers.explain(rank=0, iteration=3)
    assert "rank 0: gradients of ['policy']['kernel']" in str(error)
