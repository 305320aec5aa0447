"""NaN and infinity are named on all ranks, by the rank and the tensor that had them first."""

from __future__ import annotations

import math
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from fake_ranks import run_ranks

from rltrain.errors import NonFiniteError
from rltrain.metrics.finite import EnvNumbers, describe
from rltrain.metrics.numbers import Numbers
from rltrain_jax.arrays import JaxArrays
from rltrain_torch.arrays import TorchArrays


class OnDevice(TorchArrays):
    """Arrays that are not on the host."""

    def view_on_host(self, x):
        return x


ARRAYS = {"numpy": None, "torch": TorchArrays(), "device": OnDevice(), "jax": JaxArrays()}
MAKE = {"numpy": np.array, "torch": torch.tensor, "device": torch.tensor, "jax": jnp.array}
NAN, INF = math.nan, math.inf


@pytest.fixture(params=MAKE)
def array(request):
    """Make an array of a framework."""

    def array(values):
        return MAKE[request.param](values)

    array.arrays = ARRAYS[request.param]
    return array


def found(numbers: EnvNumbers) -> str:
    return describe(numbers.findings(rank=2))


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_an_observation_names_its_group_and_environment(array, bad):
    env, good = EnvNumbers(array.arrays), array([[1.0, 2.0]] * 3)
    groups = {"policy": array([[1.0, 2.0], [3.0, bad], [5.0, 6.0]]), "critic": good}
    env.reset({"policy": good, "critic": good})
    env.step({"policy": good, "critic": good}, array([1.0, 1.0, 1.0]))
    assert env.count() == {"observations": 0, "rewards": 0}
    env.step(groups, array([1.0, 1.0, 1.0]))
    assert env.count() == {"observations": 1, "rewards": 0}
    assert found(env) == "rank 2: observations[policy], first in environment 1"


def test_the_first_reset_is_checked(array):
    env = EnvNumbers(array.arrays)
    env.reset(array([[1.0], [NAN]]))
    assert env.count()["observations"] == 1
    env.step(array([[1.0], [2.0]]), array([1.0, 1.0]))
    assert found(env) == "rank 2: observations, first in environment 1"


def test_what_breaks_first_is_named(array):
    env, good = EnvNumbers(array.arrays), array([[1.0], [1.0]])
    env.reset(good)
    env.step(good, array([1.0, NAN]))
    for _ in range(3):
        env.step(array([[NAN], [NAN]]), array([NAN, NAN]))
    assert found(env) == "rank 2: rewards, first in environment 1"
    assert env.count() == {"observations": 6, "rewards": 7}


def test_an_iteration_starts_without_findings(array):
    env, good = EnvNumbers(array.arrays), array([[1.0], [1.0]])
    env.step(array([[1.0], [NAN]]), array([INF, 1.0]))
    env.restart()
    env.step(good, array([1.0, 1.0]))
    assert env.count() == {"observations": 0, "rewards": 0}
    assert env.findings(0) == []


def test_images_and_whole_numbers_pass(array):
    env = EnvNumbers(array.arrays)
    env.step({"image": array([[[[0, 255]]]]), "depth": array([[[[0.5]]]])}, array([1]))
    assert env.count() == {"observations": 0, "rewards": 0}
    env.step({"image": array([[[[0, 255]]]]), "depth": array([[[[INF]]]])}, array([1]))
    assert found(env) == "rank 2: observations[depth], first in environment 0"


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_whose_sum_overflows_pass(array):
    env = EnvNumbers(array.arrays)
    huge = array([[3e38, 3e38], [3e38, 3e38]])
    env.reset(huge)
    env.step(huge, array([3e38, 3e38]))
    assert env.count() == {"observations": 0, "rewards": 0}


def test_half_precision_is_checked():
    env = EnvNumbers(ARRAYS["torch"])
    for bad in (1.0, NAN):
        values = {
            "policy": torch.tensor([[bad], [1.0]], dtype=torch.bfloat16),
            "critic": torch.ones(2, 1),
        }
        env.step(values, torch.ones(2))
    assert found(env) == "rank 2: observations[policy], first in environment 0"
    assert env.count() == {"observations": 1, "rewards": 0}


def test_skip_puts_zero_in_their_place(array):
    env = EnvNumbers(array.arrays, replaces=True)
    observations, rewards = env.step(
        {"policy": array([[1.0, NAN], [INF, 2.0]]), "image": array([[3], [4]])}, array([-INF, 1.0])
    )
    assert observations["policy"].tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert observations["image"].tolist() == [[3], [4]]
    assert rewards.tolist() == [0.0, 1.0]
    assert env.count() == {"observations": 2, "rewards": 1}
    assert env.reset(array([[NAN]])).tolist() == [[0.0]]


def test_checks_wait_for_no_device():
    import jax

    env, good, rewards = EnvNumbers(ARRAYS["jax"]), jnp.ones((2, 3)), jnp.ones(2)
    env.reset(good)
    env.step(good, rewards)
    with jax.transfer_guard("disallow"):
        for _ in range(2):
            env.step(good, rewards)


# Ranks


def losses(body, world_size=2, reaction="stop"):
    """Run `body(numbers, rank)` for an iteration on each rank; return what each rank got."""

    def one(group):
        numbers = Numbers(reaction, ARRAYS["torch"])
        counts = numbers.count(body(numbers, group.rank) or {})
        counts = list(group.all_reduce(np.array(counts), "sum"))
        return numbers.react(group, counts, iteration=5)

    return run_ranks(world_size, one)


def test_one_rank_ends_all_with_the_same_error():
    def body(numbers, rank):
        value = NAN if rank == 1 else 1.0
        numbers.env.step(torch.tensor([[1.0], [value]]), torch.ones(2))
        return {"Loss/value": NAN}

    first, second = losses(body)
    assert isinstance(first, NonFiniteError)
    assert str(first) == str(second)
    assert "in iteration 5: rank 1: observations, first in environment 1. " in str(first)
    assert "--on-nonfinite skip" in str(first)
    assert not first.may_restart
    assert (first.exit_code, pickle.loads(pickle.dumps(first)).may_restart) == (1, False)


def test_a_rollback_may_be_restarted():
    error = losses(lambda numbers, rank: {"loss": INF}, reaction="rollback")[0]
    assert error.may_restart
    assert pickle.loads(pickle.dumps(error)).may_restart
    assert "rank 0: loss; rank 1: loss" in str(error)


@pytest.mark.parametrize(
    "values",
    [{"return": NAN}, {"Policy/std": INF}, {"loss": (3.0, 0)}, {"Info / loss of energy": NAN}],
)
def test_a_metric_that_is_no_loss_may_be_nan(values):
    assert losses(lambda numbers, rank: values) == [("", {})] * 2


def test_skip_warns_once_for_each_kind_and_counts():
    def one(group):
        numbers, said = Numbers("skip", None), []
        for values in ({"loss": NAN}, {"loss": INF}, {}):
            counts = group.all_reduce(np.array(numbers.count(values)), "sum")
            said.append(numbers.react(group, list(counts), 1))
        return said

    first, second, third = run_ranks(2, one)[1]
    assert first[0].startswith("NaN or infinity in iteration 1: rank 0: loss; rank 1: loss.")
    assert (second[0], third[0]) == ("", "")
    assert [counts for _, counts in (first, second, third)] == [
        {"nonfinite/losses": 2.0},
        {"nonfinite/losses": 4.0},
        {"nonfinite/losses": 4.0},
    ]


def test_many_ranks_make_a_short_message():
    error = losses(lambda numbers, rank: {"loss": NAN}, world_size=7)[0]
    assert "rank 3: loss; and 3 more." in str(error)


# Gradients


def update(numbers, sync, *gradients):
    return sync([None if x is None else torch.tensor(x) for x in gradients])


def test_gradients_name_the_rank_and_the_parameter_that_began():
    def body(numbers, rank):
        model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
        numbers.add_model(model, "actor")
        sync = numbers.checked(lambda gradients: gradients, [*model.parameters()])
        good = [[1.0]] * 4
        update(numbers, sync, *good)
        update(numbers, sync, *good[:2], [NAN if rank == 1 else 1.0], None)
        for _ in range(2):  # The averages are NaN, and so are all parameters after the step.
            update(numbers, sync, *[[NAN]] * 4)
        return {"Loss/value": NAN, "Loss/surrogate": 1.0}

    message = str(losses(body)[0])
    assert "rank 1: gradients of actor.1.weight; rank 1: Loss/value. " in message


def test_gradients_that_cause_broken_observations_come_first():
    """Libraries with a replay buffer learn in every step."""

    def body(numbers, rank):
        sync = numbers.checked(lambda gradients: gradients, [torch.zeros(1)])
        for step in range(5):
            bad = NAN if step >= 2 else 1.0
            numbers.env.step(torch.tensor([[bad]]), torch.ones(1))
            if step >= 1:
                update(numbers, sync, [INF if rank or step > 1 else 1.0])

    message = str(losses(body)[0])
    assert "in iteration 5: rank 1: gradients of parameter 0. " in message


def test_huge_gradients_in_half_precision_are_finite():
    def body(numbers, rank):
        sync = numbers.checked(lambda gradients: gradients, [torch.zeros(2)])
        sync(
            [
                torch.full((2,), 6e4, dtype=torch.float16),
            ]
        )

    assert losses(body) == [("", {})] * 2


def test_gradients_of_several_types_are_checked_together():
    numbers = Numbers("stop", TorchArrays())
    types = torch.float32, torch.float64, torch.bfloat16
    parameters = [torch.ones(2, dtype=kind, requires_grad=True) for kind in types]
    sync = numbers.checked(lambda gradients: gradients, parameters)
    sync([*parameters[:2], None])
    assert numbers.count({})[2] == 0
    sync([*parameters[:2], torch.tensor([1.0, INF], dtype=torch.bfloat16)])
    assert numbers.count({})[2] == 1


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_skip_leaves_out_an_update_on_all_ranks(framework):
    make = MAKE[framework]

    def one(group):
        numbers = Numbers("skip", ARRAYS[framework])

        def average(gradients):
            return [group.all_reduce(gradient, "mean") for gradient in gradients]

        sync = numbers.checked(average, [make([0.0])])
        skipped = sync([make([INF if group.rank else 1.0])])
        kept = sync([make([1.0])])
        return skipped, kept[0].tolist(), numbers.count({})

    first, second = run_ranks(2, one)
    assert first == (None, [1.0], [0.0] * 4)
    assert second == (None, [1.0], [0.0, 0.0, 1.0, 0.0])


def test_jax_names_the_path_of_a_gradient():
    numbers = Numbers("stop", ARRAYS["jax"])
    tree = {"policy": {"bias": jnp.ones(2), "kernel": jnp.ones((2, 2))}}
    sync = numbers.checked(lambda gradients: gradients, tree)
    sync(tree)
    sync({"policy": {"bias": jnp.ones(2), "kernel": jnp.full((2, 2), NAN)}})
    assert numbers.count({}) == [0.0, 0.0, 1.0, 0.0]
    error = numbers.explain(rank=0, iteration=3)
    assert "rank 0: gradients of ['policy']['kernel']" in str(error)


def test_nothing_is_explained_where_all_is_finite():
    assert Numbers("stop", ARRAYS["torch"]).explain(rank=0, iteration=1) is None
