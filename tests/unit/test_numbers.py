"""NaN and infinity are named on all ranks, by the rank and the tensor that had them first."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from helpers import run_ranks
from made_up_arrays import MadeUpArrays, OfKind, tensor
from messages import check_said

from rltrain.errors import NonFiniteError, PeerLost
from rltrain.metrics.numbers import EnvNumbers, NonFiniteCheck, describe

NAN, INF = math.nan, math.inf


def found(numbers: EnvNumbers) -> str:
    return describe(numbers.findings(rank=2))


class EnvRules(OfKind):
    @pytest.mark.parametrize("bad", [NAN, INF, -INF])
    def test_an_observation_names_its_group_and_environment(self, array, bad):
        env, good = EnvNumbers(array.arrays), array([[1.0, 2.0]] * 3)
        groups = {"policy": array([[1.0, 2.0], [3.0, bad], [5.0, 6.0]]), "critic": good}
        env.reset({"policy": good, "critic": good})
        env.step({"policy": good, "critic": good}, array([1.0, 1.0, 1.0]))
        assert env.count() == {"observations": 0, "rewards": 0}
        env.step(groups, array([1.0, 1.0, 1.0]))
        assert env.count() == {"observations": 1, "rewards": 0}
        assert found(env) == "rank 2: observations[policy], first in environment 1"
        env = EnvNumbers(array.arrays)
        env.reset(array([[1.0], [bad]]))  # The first reset counts, too.
        assert env.count()["observations"] == 1
        env.step(array([[1.0], [2.0]]), array([1.0, 1.0]))
        assert found(env) == "rank 2: observations, first in environment 1"

    def test_what_breaks_first_is_named(self, array):
        env, good = EnvNumbers(array.arrays), array([[1.0], [1.0]])
        env.reset(good)
        env.step(good, array([1.0, NAN]))
        for _ in range(3):
            env.step(array([[NAN], [NAN]]), array([NAN, NAN]))
        assert found(env) == "rank 2: rewards, first in environment 1"
        assert env.count() == {"observations": 6, "rewards": 7}
        env.restart()  # An iteration starts without findings.
        env.step(good, array([1.0, 1.0]))
        assert env.count() == {"observations": 0, "rewards": 0}
        assert env.findings(0) == []

    def test_a_number_that_comes_once_is_named_before_what_follows(self, array):
        env, good = EnvNumbers(array.arrays), array([[1.0], [1.0]])
        env.reset(good)
        env.step(array([[1.0], [NAN]]), array([1.0, 1.0]))
        env.step(good, array([1.0, 1.0]))
        env.step(good, array([NAN, 1.0]))
        env.step(good, array([NAN, 1.0]))
        assert found(env) == "rank 2: observations, first in environment 1"
        assert env.count() == {"observations": 1, "rewards": 2}

    def test_final_observations_that_come_now_and_then_keep_their_place(self, array):
        env, good = EnvNumbers(array.arrays), array([[1.0], [1.0]])
        info = {"final_obs": array([[NAN], [1.0]]), "_final_obs": array([True, False])}
        env.step(good, array([1.0, 1.0]), info)
        env.step(array([[NAN], [1.0]]), array([1.0, 1.0]))
        env.step(array([[NAN], [1.0]]), array([1.0, 1.0]), info)
        assert found(env) == "rank 2: final observations, first in environment 0"

    @pytest.mark.filterwarnings("error::RuntimeWarning")
    def test_numbers_whose_sum_overflows_images_and_whole_numbers_pass(self, array):
        env = EnvNumbers(array.arrays)
        huge = array([[3e38, 3e38], [3e38, 3e38]])
        env.reset(huge)
        env.step(huge, array([3e38, 3e38]))
        env.step({"image": array([[[[0, 255]]]]), "depth": array([[[[0.5]]]])}, array([1]))
        assert env.count() == {"observations": 0, "rewards": 0}
        env.step({"image": array([[[[0, 255]]]]), "depth": array([[[[INF]]]])}, array([1]))
        assert found(env) == "rank 2: observations[depth], first in environment 0"

    def test_skip_puts_zero_in_their_place(self, array):
        env = EnvNumbers(array.arrays, replaces=True)
        observations, rewards, _ = env.step(
            {"policy": array([[1.0, NAN], [INF, 2.0]]), "image": array([[3], [4]])},
            array([-INF, 1.0]),
        )
        assert observations["policy"].tolist() == [[1.0, 0.0], [0.0, 2.0]]
        assert observations["image"].tolist() == [[3], [4]]
        assert rewards.tolist() == [0.0, 1.0]
        assert env.count() == {"observations": 2, "rewards": 1}
        assert env.reset(array([[NAN]])).tolist() == [[0.0]]

    @pytest.mark.filterwarnings("error::RuntimeWarning")
    def test_final_observations_of_ended_episodes_are_array(self, array):
        env, good = EnvNumbers(array.arrays), array([[1.0], [1.0], [1.0]])
        info = {
            "final_obs": {"policy": array([[NAN], [2.0], [NAN]]), "step": array([1, 2, 3])},
            "_final_obs": array([False, True, True]),
        }
        env.step({"policy": good}, array([1.0] * 3), info)
        assert env.count() == {"observations": 1, "rewards": 0}
        assert found(env) == "rank 2: final observations[policy], first in environment 2"
        env.restart()
        info["_final_obs"] = array([True, True, False])
        env.step({"policy": good}, array([1.0] * 3), info)
        assert found(env) == "rank 2: final observations[policy], first in environment 0"

    def test_skip_puts_zero_in_final_observations_and_leaves_the_tasks_own(self, array):
        env, good = EnvNumbers(array.arrays, replaces=True), array([[1.0], [1.0]])
        info = {"final_obs": array([[NAN], [2.0]]), "_final_obs": array([True, False]), "log": 3}
        *_, given = env.step(good, array([1.0, 1.0]), info)
        assert given["final_obs"].tolist() == [[0.0], [2.0]]
        assert (given["log"], given["_final_obs"].tolist()) == (3, [True, False])
        assert math.isnan(info["final_obs"][0][0])


def losses(body, world_size=2, reaction="stop", arrays=None):
    """Run `body(numbers, rank)` for an iteration on each rank; return what each rank got."""

    def one(group):
        numbers = NonFiniteCheck(reaction, arrays or MadeUpArrays())
        counts = numbers.count(body(numbers, group.rank) or {})
        counts = list(group.all_reduce(np.array(counts), "sum"))
        return numbers.react(group, counts, iteration=5)

    return run_ranks(world_size, one)


def test_one_rank_ends_all_with_the_same_error():
    def body(numbers, rank):
        value = NAN if rank == 1 else 1.0
        numbers.env.step(tensor([[1.0], [value]]), tensor([1.0, 1.0]))
        return {"Loss/value": NAN}

    first, second = losses(body)
    assert isinstance(first, NonFiniteError)
    assert str(first) == str(second)
    check_said(str(first))
    assert (first.exit_code, pickle.loads(pickle.dumps(first)).may_restart) == (1, True)
    error = losses(lambda numbers, rank: {"loss": NAN}, world_size=7)[0]
    check_said(str(error))


@pytest.mark.parametrize(
    "values",
    [{"return": NAN}, {"Policy/std": INF}, {"loss": (3.0, 0)}, {"Info / loss of energy": NAN}],
)
def test_a_metric_that_is_no_loss_may_be_nan(values):
    assert losses(lambda numbers, rank: values) == [("", {})] * 2


def test_skip_warns_once_for_each_kind_and_counts():
    def one(group):
        numbers, said = NonFiniteCheck("skip", None), []
        for values in ({"loss": NAN}, {"loss": INF}, {}):
            counts = group.all_reduce(np.array(numbers.count(values)), "sum")
            said.append(numbers.react(group, list(counts), 1))
        return said

    first, second, third = run_ranks(2, one)[1]
    check_said(first[0])
    assert (second[0], third[0]) == ("", "")
    counts = [counts["nonfinite/losses"] for _, counts in (first, second, third)]
    assert counts == [1.0, 2.0, 2.0]


def update(numbers, sync, *gradients):
    return sync([None if x is None else tensor(x) for x in gradients])


def test_gradients_name_the_rank_and_the_parameter_that_began():
    def body(numbers, rank):
        names = ("0.weight", "0.bias", "1.weight", "1.bias")
        model = {name: tensor([1.0]) for name in names}
        numbers.add_model(model, "actor")
        sync = numbers.checked(lambda gradients: gradients, [*model.values()])
        good = [[1.0]] * 4
        update(numbers, sync, *good)
        update(numbers, sync, *good[:2], [NAN if rank == 1 else 1.0], None)
        for _ in range(2):  # The averages are NaN, and so are all parameters after the step.
            update(numbers, sync, *[[NAN]] * 4)
        return {"Loss/value": NAN, "Loss/surrogate": 1.0}

    check_said(str(losses(body)[0]))


def test_an_observation_that_broke_once_comes_before_gradients_of_later_steps():
    def body(numbers, rank):
        sync = numbers.checked(lambda gradients: gradients, [tensor([0.0])])
        for step in range(5):
            numbers.env.step(tensor([[NAN if rank and step == 2 else 1.0]]), tensor([1.0]))
            update(numbers, sync, [NAN if rank and step == 3 else 1.0])

    check_said(str(losses(body)[0]))


def test_gradients_that_cause_broken_observations_come_first():
    """Libraries with a replay buffer learn in every step."""

    def body(numbers, rank):
        sync = numbers.checked(lambda gradients: gradients, [tensor([0.0])])
        for step in range(5):
            bad = NAN if step >= 2 else 1.0
            numbers.env.step(tensor([[bad]]), tensor([1.0]))
            if step >= 1:
                update(numbers, sync, [INF if rank or step > 1 else 1.0])

    check_said(str(losses(body)[0]))


class GradientRules(OfKind):
    def skipping(self, group, array):
        """Return the check of a rank that skips updates, and its gradient sync."""
        numbers = NonFiniteCheck("skip", array.arrays)
        average = lambda gradients: [group.all_reduce(x, "mean") for x in gradients]  # noqa: E731
        return numbers, numbers.checked(average, [array([0.0])])

    def test_skip_leaves_out_an_update_on_all_ranks(self, array):
        def one(group):
            numbers, sync = self.skipping(group, array)
            skipped = sync([array([INF if group.rank else 1.0])])
            kept = sync([array([1.0])])
            return skipped, kept[0].tolist(), numbers.count({})

        first, second = run_ranks(2, one)
        assert first == (None, [1.0], [0.0] * 5)
        assert second == (None, [1.0], [0.0, 0.0, 1.0, 0.0, 0.0])

    @pytest.mark.parametrize("value", [NAN, INF])
    def test_what_is_averaged_beside_gradients_leaves_no_update_out(self, array, value):
        """It is no gradient, such as a KL divergence."""
        numbers = NonFiniteCheck("skip", array.arrays)
        sync = numbers.checked(list, [array([0.0]), array(0.0)], 1)
        assert sync([array([1.0]), array(value)]) is not None
        assert sync([array([value]), array(1.0)]) is None

    def test_updates_that_were_left_out_are_counted_once_whatever_the_number_of_ranks(self, array):
        def one(group):
            numbers, sync = self.skipping(group, array)
            for value in (NAN, 1.0, INF):
                sync([array([value])])
            counts = group.all_reduce(np.array(numbers.count({}), float), "sum")
            return numbers.react(group, list(counts), 1)[1]

        assert run_ranks(3, one) == [{"nonfinite/gradients": 2.0}] * 3
        assert run_ranks(1, one) == [{"nonfinite/gradients": 2.0}]

    def test_an_average_that_overflows_is_counted_and_named(self, array):
        """The sum of the ranks' gradients may be infinite where each of them is finite."""

        def one(group):
            numbers = NonFiniteCheck("skip", array.arrays)
            numbers.checked(lambda _: [array([INF])], [array([0.0])])([array([3e38])])
            return numbers.react(group, numbers.count({}), 1)

        warning, counts = run_ranks(2, one)[0]
        assert counts == {"nonfinite/gradients": 1.0}
        told = "rank 0: the average of the ranks' gradients, which are finite. Gradients: all"
        assert told in warning


@pytest.mark.parametrize("reaction", ["stop", "skip"])
def test_parameters_that_an_update_has_broken_end_the_run_before_its_checkpoint(reaction):
    def body(numbers, rank):
        parameters = {"weight": tensor([1.0]), "bias": tensor([1.0])}
        numbers.add_model(parameters, "actor")
        update(numbers, numbers.checked(list, [*parameters.values()]), [1.0], [1.0])
        parameters["bias"][0] = INF

    error = losses(body, reaction=reaction)[1]
    assert isinstance(error, NonFiniteError)
    check_said(str(error))
    assert ("--on-nonfinite skip" in str(error)) is (reaction == "stop")


def test_a_library_that_fails_by_another_ranks_gradients_names_that_rank():
    """Each rank explains its own failure, and that of the rank that began is to be shown."""

    def one(group):
        numbers, weight = NonFiniteCheck("stop", MadeUpArrays()), tensor([1.0])
        sync = numbers.checked(lambda gradients: [group.all_reduce(gradients[0], "mean")], [weight])
        weight -= sync([tensor([NAN if group.rank else 1.0])])[0]
        return numbers.explain(group.rank, iteration=3)

    first, second = run_ranks(2, one)
    assert isinstance(first, PeerLost)
    check_said(str(first))
    assert isinstance(second, NonFiniteError)
    check_said(str(second))
    # Nothing is explained where all is finite.
    assert NonFiniteCheck("stop", MadeUpArrays()).explain(rank=0, iteration=1) is None


class TestNumpy(EnvRules):
    pass


class TestMadeUp(EnvRules, GradientRules):
    arrays, make = MadeUpArrays(), staticmethod(tensor)
