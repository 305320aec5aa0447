"""Episodes, and numbers that are not finite, are counted in jax's arrays as in numpy's."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from test_numbers import EnvRules, GradientRules
from test_statistics import EpisodeRules

from rltrain.data import pack_state, unpack_state
from rltrain.metrics.episodes import EpisodeCounter
from rltrain.metrics.numbers import EnvNumbers, NonFiniteCheck
from rltrain_jax.arrays import JaxArrays

ARRAYS = JaxArrays()


class TestJax(EnvRules, GradientRules, EpisodeRules):
    arrays, make = ARRAYS, staticmethod(jnp.array)


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
    numbers = NonFiniteCheck("stop", ARRAYS)
    tree = {"policy": {"bias": jnp.ones(2), "kernel": jnp.ones((2, 2))}}
    sync = numbers.checked(lambda gradients: gradients, tree)
    sync(tree)
    sync({"policy": {"bias": jnp.ones(2), "kernel": jnp.full((2, 2), math.nan)}})
    assert numbers.count({}) == [0.0, 0.0, 1.0, 0.0, 0.0]
    error = numbers.explain(rank=0, iteration=3)
    assert "rank 0: gradients of ['policy']['kernel']" in str(error)
