"""How the core sees tensors: counted and checked as numpy's arrays, viewed, saved, read back."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from messages import check_said
from test_numbers import EnvRules, GradientRules, found, losses
from test_statistics import EpisodeRules

from rltrain.data import UnsafePickle, pack_object, pack_state, unpack_state
from rltrain.metrics.episodes import EpisodeCounter
from rltrain.metrics.numbers import EnvNumbers, NonFiniteCheck
from rltrain_adapters.unpickling import load_data
from rltrain_torch.arrays import TorchArrays

NAN, INF = math.nan, math.inf
ARRAYS = {"torch": TorchArrays()}


class OnDevice(TorchArrays):
    """Arrays that are not on the host."""

    def view_on_host(self, x):
        return x


class TestTorch(EnvRules, GradientRules, EpisodeRules):
    arrays, make = TorchArrays(), staticmethod(torch.tensor)


class TestTorchOnDevice(EnvRules, EpisodeRules):
    arrays, make = OnDevice(), staticmethod(torch.tensor)


def test_a_counter_on_the_cpu_continues_from_one_on_a_device():
    """What was on a device is loaded as tensors."""
    counter = EpisodeCounter(TorchArrays())
    tensors = torch.tensor([5.0, 0.0]), torch.tensor([1.0, 0.0])
    sums = (torch.zeros(2),) * 5
    counter.set_state({"steps": 2, "_return": tensors[0], "_length": tensors[1], "_sums": sums})
    counter.step(torch.ones(2), torch.tensor([True, False]), torch.tensor([False, False]))
    assert counter.take() == (6, 2, 1, 0, 0)


def test_half_precision_is_checked():
    env = EnvNumbers(TorchArrays())
    for bad in (1.0, NAN):
        values = {
            "policy": torch.tensor([[bad], [1.0]], dtype=torch.bfloat16),
            "critic": torch.ones(2, 1),
        }
        env.step(values, torch.ones(2))
    assert found(env) == "rank 2: observations[policy], first in environment 0"
    assert env.count() == {"observations": 1, "rewards": 0}


def test_huge_gradients_in_half_precision_are_finite():
    def body(numbers, rank):
        sync = numbers.checked(lambda gradients: gradients, [torch.zeros(2)])
        sync([torch.full((2,), 6e4, dtype=torch.float16)])

    assert losses(body, arrays=TorchArrays()) == [("", {})] * 2


def test_gradients_of_several_types_are_checked_together():
    numbers = NonFiniteCheck("stop", TorchArrays())
    types = torch.float32, torch.float64, torch.bfloat16
    parameters = [torch.ones(2, dtype=kind, requires_grad=True) for kind in types]
    sync = numbers.checked(lambda gradients: gradients, parameters)
    sync([*parameters[:2], None])
    assert numbers.count({})[2] == 0
    sync([*parameters[:2], torch.tensor([1.0, INF], dtype=torch.bfloat16)])
    assert numbers.count({})[2] == 1


def test_parameters_have_the_names_of_the_models_they_belong_to():
    numbers = NonFiniteCheck("stop", TorchArrays())
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    numbers.add_model(model, "actor")
    sync = numbers.checked(lambda gradients: gradients, [*model.parameters(), torch.zeros(1)])
    sync([*map(torch.zeros_like, model.parameters()), torch.zeros(1)])
    sync([torch.ones(1), torch.ones(1), torch.full((1, 1), NAN), None, torch.full((1,), NAN)])
    check_said(str(numbers.explain(rank=0, iteration=1)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64])
def test_a_view_on_the_host_shares_the_memory(dtype):
    tensor = torch.zeros(3, dtype=dtype, requires_grad=dtype.is_floating_point)
    view = TorchArrays().view_on_host(tensor)
    tensor.detach()[1] = 1
    assert isinstance(view, np.ndarray)
    assert view.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "other",
    [torch.ones(2, dtype=torch.bfloat16), torch.ones(2, device="meta"), np.ones(2), 1.0, None],
)
def test_what_numpy_cannot_view_stays_as_it_is(other):
    assert TorchArrays().view_on_host(other) is other


def test_tensors_are_told_from_other_objects():
    owns = TorchArrays().owns
    assert owns(torch.ones(2))
    assert owns(torch.nn.Parameter(torch.ones(2)))
    assert owns(torch.ones(2).as_subclass(type("Mine", (torch.Tensor,), {})))
    assert not any(map(owns, (np.ones(2), 1.0, None, torch.float32, torch.Size((2,)))))


def restored(state, device="cpu"):
    return unpack_state(pack_state(state, ARRAYS), device, ARRAYS)


def test_tensors_are_restored():
    tensor = torch.tensor([1.0, 2.0])
    back = restored({"a": tensor, "b": [tensor[:1], tensor.numpy()]})
    assert torch.equal(back["a"], tensor)
    assert torch.equal(back["b"][0], tensor[:1])
    assert isinstance(back["b"][1], np.ndarray)
    back["a"] += 1.0  # Not a view of the file's memory.
    one, again, other = (pack_state(torch.tensor([x]), ARRAYS) for x in (1.0, 1.0, 2.0))
    assert one == again != other


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
    other, host = restored([tensor, torch.ones(2)], "meta")
    assert (other.device.type, host.device.type) == ("meta", "cpu")
