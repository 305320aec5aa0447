"""How the core sees jax's arrays: counted and checked as numpy's, saved, and read back."""

from __future__ import annotations

import math
import pickle

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from messages import check_said
from test_numbers import EnvRules, GradientRules
from test_statistics import EpisodeRules

from rltrain.data import NARROW, pack_state, unpack_state
from rltrain.metrics.episodes import EpisodeCounter
from rltrain.metrics.numbers import EnvNumbers, NonFiniteCheck
from rltrain_adapters.unpickling import load_data
from rltrain_jax.arrays import JaxArrays

ARRAYS = JaxArrays()
BY_FRAMEWORK = {"jax": ARRAYS}


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
    packed = pack_state(counter.get_state(), BY_FRAMEWORK)
    other.set_state(unpack_state(packed, "cpu", BY_FRAMEWORK))
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
    check_said(str(error))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint32", "bool"])
def test_jax_arrays_are_restored(dtype):
    state = {"key": jax.random.PRNGKey(7), "x": (jnp.ones((2, 3), dtype), np.ones(2))}
    back = unpack_state(pack_state(state, BY_FRAMEWORK), "cpu", BY_FRAMEWORK)
    assert isinstance(back["x"][0], jax.Array)
    assert isinstance(back["x"][1], np.ndarray)
    assert (back["x"][0].dtype, back["x"][0].shape) == (dtype, (2, 3))
    assert (back["x"][0] == 1).all()
    assert back["x"][0].devices() == {jax.local_devices(backend="cpu")[0]}
    assert jax.random.normal(back["key"]) == jax.random.normal(state["key"])


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4"])
def test_pickled_arrays_of_narrow_types_are_read(name, protocol):
    array = np.ones(3, getattr(ml_dtypes, name))
    back = load_data(pickle.dumps([array, array], protocol))[1]
    assert (back.dtype, type(back)) == (array.dtype, np.ndarray)
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("name", NARROW)
def test_every_narrow_type_is_one_of_numbers(name):
    if hasattr(ml_dtypes, name):
        assert np.dtype(getattr(ml_dtypes, name)).itemsize <= 2
