"""Metrics merged over ranks in one collective."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from helpers import run_ranks
from messages import says

from rltrain.errors import DivergenceError, PluginError
from rltrain.metrics.scalars import OWN, ScalarExchange
from rltrain.testing import FakeWorld


def merge(*ranks, sums=(0.0,)):
    """Merge iterations of scalars, a list by rank; return what rank 0 got, and the world."""
    world = FakeWorld(len(ranks))

    def one(group):
        exchange = ScalarExchange(group)
        return [
            exchange.merge(index + 1, values, sums, [float(group.rank), 1.0, 2.0, 3.0])
            for index, values in enumerate(ranks[group.rank])
        ]

    results = world.run(one)
    assert all(repr(result) == repr(results[0]) for result in results), "ranks got other figures"
    return results[0], world


TIMES = {"time/update": 3.0, "time/update (min)": 1.0, "time/update (max)": 6.0}
PAIRS = [{"a": (10.0, 1), "b": (0.0, 0)}, {"a": (2.0, 3), "b": (0.0, 0)}]


@pytest.mark.parametrize(
    ("ranks", "merged"),
    [
        *(
            ([{name: 1}, {name: 2.0}, {name: np.float32(6)}], {name: merged})
            for name, merged in {
                "loss": 3.0,
                "t (min)": 1.0,
                "t (max)": 6.0,
                "t (sum)": 9.0,
            }.items()
        ),
        ([{"time/update": seconds} for seconds in (1.0, 2.0, 6.0)], TIMES),
        (PAIRS, {"a": 3.0}),  # A sum and a count.
    ],
)
def test_scalars_are_merged_by_their_names(ranks, merged):
    ((result,), _) = merge(*([values] for values in ranks))
    assert result.values == merged


def test_a_scalar_that_some_ranks_lack_is_merged_over_the_others():
    results, _ = merge([{"a": 1.0}, {}], [{"b": 2.0}, {"b": 4.0}], [{"a": 3.0}, {"a (min)": 5.0}])
    assert [result.values for result in results] == [
        {"a": 2.0, "b": 2.0},
        {"b": 4.0, "a (min)": 5.0},
    ]


def test_nan_and_inf_affect_only_their_own_scalar():
    ((result,), _) = merge([{"a": 1.0, "b": math.nan, "c (max)": math.inf}], [{"a": 1.0, "b": 1.0}])
    assert result.values["a"] == 1.0
    assert math.isnan(result.values["b"])
    assert result.values["c (max)"] == math.inf


def test_sums_and_speeds_are_merged_too():
    results = run_ranks(2, lambda group: ScalarExchange(group).merge(0, {}, [], [0.0] * OWN))
    assert [each.values for each in results] == [{}, {}]  # Iteration 0 may be recorded.
    ((result,), _) = merge([{}], [{}], sums=(2.0, 5.0))
    assert (result.values, result.sums) == ({}, [4.0, 10.0])
    assert result.own == [(0.0, 1.0, 2.0, 3.0), (1.0, 1.0, 2.0, 3.0)]


def test_once_names_are_known_an_iteration_is_one_collective():
    values = {"loss": 1.0, "time/update": 2.0, "kl (max)": 3.0}
    _, world = merge([values] * 3, [values] * 3)
    first, agreed, *iterations = [event.op for event in world.trace]
    assert agreed == "gather_objects"
    assert [first, *iterations] == ["all_reduce(sum)"] * 4


@pytest.mark.parametrize("ending", [False, True])
def test_ranks_that_are_out_of_step_are_reported(ending):
    def one(group):
        exchange = ScalarExchange(group)
        exchange.merge(1, {"loss": 1.0}, [0.0], [0.0] * OWN)
        if ending and group.rank:
            exchange.finish(1, 1)
        else:
            exchange.merge(2 + group.rank, {"loss": 1.0}, [0.0], [0.0] * OWN)

    with says(DivergenceError):
        FakeWorld(2).run(one)


class Forgets:
    """The group of a backend whose sums lack a rank."""

    def __init__(self, group, rank):
        self.group, self.forgotten = group, rank
        self.rank, self.world_size = group.rank, group.world_size

    def all_reduce(self, x, op):
        return self.group.all_reduce(x * (self.rank != self.forgotten), op)


class Doubles(Forgets):
    def all_reduce(self, x, op):
        return 2 * self.group.all_reduce(x, op)


@pytest.mark.parametrize(
    ("wrong", "message"), [(Forgets, "leaves out rank 1"), (Doubles, r"changes what rank \d gave")]
)
def test_a_sum_that_is_wrong_is_the_mistake_of_the_backend(wrong, message):
    def merge(group):
        exchange = ScalarExchange(wrong(group, 1))
        exchange.merge(1, {"loss": 1.0}, [0.0], [0.0] * OWN)

    results = run_ranks(3, merge)
    assert {type(each) for each in results} == {PluginError}
    for each in results:
        sums = r"all_reduce\(\"sum\"\) of the backend's process group"
        assert re.search(f"{sums} {message}", str(each))
        assert "BackendConformance" in str(each)


@pytest.mark.parametrize("value", ["best", None, [1.0, 2.0], np.ones(2), (1.0, 2.0, 3.0), ("a", 1)])
def test_a_metric_that_is_no_number_is_named(value):
    with pytest.raises(PluginError, match=r"^The metric 'note' is "):
        merge([{"loss": 1.0, "note": value}])
