"""Tensors in a rank's state come back as they were, and are never taken for data only."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from rltrain.data import UnsafePickle, pack_object, pack_state, unpack_state
from rltrain_adapters.unpickling import load_data
from rltrain_torch.arrays import TorchArrays

ARRAYS = {"torch": TorchArrays()}


def dumps(state):
    return pack_state(state, ARRAYS)


def loads(data, device):
    return unpack_state(data, device, ARRAYS)


def state(values):
    tensor = torch.tensor(values)
    return {"a": tensor, "b": [tensor[:1], np.array(values)]}


def same(back):
    assert torch.equal(back["a"], torch.tensor([1.0, 2.0]))
    assert torch.equal(back["b"][0], torch.tensor([1.0]))
    assert (back["b"][1] == [1.0, 2.0]).all()


def test_tensors_are_restored():
    back = loads(dumps(state([1.0, 2.0])), "cpu")
    same(back)
    back["a"] += 1.0  # Not a view of the file's memory.
    assert dumps(state([1.0, 2.0])) == dumps(state([1.0, 2.0])) != dumps(state([1.0, 3.0]))


def test_a_tensor_is_not_data_only():
    with pytest.raises(TypeError, match=r"data only.*torch"):
        pack_object(torch.ones(2))
    for protocol in (4, 5):
        with pytest.raises(UnsafePickle):
            load_data(pickle.dumps({"inside": [torch.ones(1)]}, protocol))


def test_device_arrays_are_restored_on_the_ranks_device():
    class OnDevice(torch.Tensor):
        device = torch.device("cuda:3")

    tensor = torch.ones(2).as_subclass(OnDevice)
    tensor.__class__.__module__ = "torch"
    data = dumps([tensor, torch.ones(2)])
    other, host = loads(data, "meta")
    assert (other.device.type, host.device.type) == ("meta", "cpu")
