"""jax's arrays, and numpy's of jax's narrow types, come back as they were."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from rltrain.data import NARROW, pack_state, unpack_state
from rltrain_adapters.unpickling import load_data
from rltrain_jax.arrays import JaxArrays

ARRAYS = {"jax": JaxArrays()}


def dumps(state):
    return pack_state(state, ARRAYS)


def loads(data, device):
    return unpack_state(data, device, ARRAYS)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint32", "bool"])
def test_jax_arrays_are_restored(dtype):
    state = {"key": jax.random.PRNGKey(7), "x": (jnp.ones((2, 3), dtype), np.ones(2))}
    back = loads(dumps(state), "cpu")
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
