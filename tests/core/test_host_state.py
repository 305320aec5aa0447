"""A rank's state as bytes."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from rltrain.plugins.manager import arrays_by_framework
from rltrain.plugins.registry import discover
from rltrain.storage import pickling

ARRAYS = arrays_by_framework(discover())


def dumps(state):
    return pickling.dumps(state, ARRAYS)


def loads(data, device):
    return pickling.loads(data, device, ARRAYS)


def test_a_state_of_a_framework_that_is_not_installed_is_an_error():
    with pytest.raises(pickle.UnpicklingError, match="arrays of torch, and no installed backend"):
        pickling.loads(dumps(torch.ones(1)), "cpu", {})


def state(values):
    tensor = torch.tensor(values)
    return {"a": tensor, "b": [tensor[:1], np.array(values)], "c": ("x", 1, None)}


def test_a_state_is_restored():
    back = loads(dumps(state([1.0, 2.0])), "cpu")
    assert torch.equal(back["a"], torch.tensor([1.0, 2.0]))
    assert torch.equal(back["b"][0], torch.tensor([1.0]))
    assert (back["b"][1] == [1.0, 2.0]).all()
    assert back["c"] == ("x", 1, None)
    back["a"] += 1.0  # Not a view of the file's memory.


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.uint8, torch.bool])
def test_dtypes_are_restored(dtype):
    assert loads(dumps(torch.ones(2, dtype=dtype)), "cpu").dtype == dtype


def test_equal_states_are_the_same_bytes():
    assert dumps(state([1.0, 2.0])) == dumps(state([1.0, 2.0]))
    assert dumps(state([1.0, 2.0])) != dumps(state([1.0, 3.0]))


def test_device_arrays_are_restored_on_the_ranks_device():
    class OnDevice(torch.Tensor):
        device = torch.device("cuda:3")

    tensor = torch.ones(2).as_subclass(OnDevice)
    tensor.__class__.__module__ = "torch"
    data = dumps([tensor, torch.ones(2)])
    other, host = loads(data, "meta")
    assert (other.device.type, host.device.type) == ("meta", "cpu")


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


def test_equal_states_with_jax_arrays_are_the_same_bytes():
    def state(value):
        return [jnp.arange(3.0) + value, {"key": jax.random.PRNGKey(value)}]

    assert dumps(state(1)) == dumps(state(1))
    assert dumps(state(1)) != dumps(state(2))
