"""A rank's state as bytes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rltrain import host_state


def state(values):
    tensor = torch.tensor(values)
    return {"a": tensor, "b": [tensor[:1], np.array(values)], "c": ("x", 1, None)}


def test_a_state_comes_back():
    back = host_state.loads(host_state.dumps(state([1.0, 2.0])), "cpu")
    assert torch.equal(back["a"], torch.tensor([1.0, 2.0]))
    assert torch.equal(back["b"][0], torch.tensor([1.0]))
    assert (back["b"][1] == [1.0, 2.0]).all()
    assert back["c"] == ("x", 1, None)
    back["a"] += 1.0  # Not memory of the file's.


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.uint8, torch.bool])
def test_dtypes_come_back(dtype):
    assert host_state.loads(host_state.dumps(torch.ones(2, dtype=dtype)), "cpu").dtype == dtype


def test_equal_states_are_the_same_bytes():
    assert host_state.dumps(state([1.0, 2.0])) == host_state.dumps(state([1.0, 2.0]))
    assert host_state.dumps(state([1.0, 2.0])) != host_state.dumps(state([1.0, 3.0]))


def test_what_was_on_a_device_is_put_on_the_ranks_own():
    class OnDevice(torch.Tensor):
        device = torch.device("cuda:3")

    tensor = torch.ones(2).as_subclass(OnDevice)
    tensor.__class__.__module__ = "torch"
    data = host_state.dumps([tensor, torch.ones(2)])
    other, host = host_state.loads(data, "meta")
    assert (other.device.type, host.device.type) == ("meta", "cpu")
