"""Episodes, and numbers that are not finite, are counted in tensors as in arrays of numpy."""

from __future__ import annotations

import math

import torch
from test_numbers import EnvRules, GradientRules, found, losses
from test_statistics import EpisodeRules

from rltrain.metrics.episodes import EpisodeCounter
from rltrain.metrics.numbers import EnvNumbers, NonFiniteCheck
from rltrain_torch.arrays import TorchArrays

NAN, INF = math.nan, math.inf


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
    assert "gradients of actor.1.weight and 1 more" in str(numbers.explain(rank=0, iteration=1))
