"""Episodes, and numbers that are not finite, are counted in tensors as in arrays of numpy."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from test_numbers import (  # noqa: F401
    found,
    losses,
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

from rltrain.metrics.episodes import EpisodeCounter
from rltrain.metrics.numbers import EnvNumbers, Numbers
from rltrain_torch.arrays import TorchArrays

NAN, INF = math.nan, math.inf


class OnDevice(TorchArrays):
    """Arrays that are not on the host."""

    def view_on_host(self, x):
        return x


@pytest.fixture(params=[TorchArrays, OnDevice])
def array(request):
    """Make tensors, and counters of them, for the tests of the core."""
    made = maker((request.param(), torch.tensor))
    made.counter = functools.partial(EpisodeCounter, made.arrays)
    return made


@pytest.fixture
def checked():
    return maker((TorchArrays(), torch.tensor))


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
    numbers = Numbers("stop", TorchArrays())
    types = torch.float32, torch.float64, torch.bfloat16
    parameters = [torch.ones(2, dtype=kind, requires_grad=True) for kind in types]
    sync = numbers.checked(lambda gradients: gradients, parameters)
    sync([*parameters[:2], None])
    assert numbers.count({})[2] == 0
    sync([*parameters[:2], torch.tensor([1.0, INF], dtype=torch.bfloat16)])
    assert numbers.count({})[2] == 1


def test_parameters_have_the_names_of_the_models_they_belong_to():
    numbers = Numbers("stop", TorchArrays())
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    numbers.add_model(model, "actor")
    sync = numbers.checked(lambda gradients: gradients, [*model.parameters(), torch.zeros(1)])
    sync([*map(torch.zeros_like, model.parameters()), torch.zeros(1)])
    sync([torch.ones(1), torch.ones(1), torch.full((1, 1), NAN), None, torch.full((1,), NAN)])
    assert "gradients of actor.1.weight and 1 more" in str(numbers.explain(rank=0, iteration=1))
