"""Diverged ranks are reported."""

from __future__ import annotations

import pytest
from fake_ranks import run_ranks

from rltrain.errors import DivergenceError
from rltrain.metrics.divergence import check_divergence
from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld


def diverge(*ranks):
    """Check named fingerprints, rank by rank; return each rank's error."""
    return run_ranks(
        len(ranks), lambda group: check_divergence(group, {"policy": lambda: ranks[group.rank]}, 7)
    )


def test_equal_ranks_pass():
    assert diverge({"w": 1, "b": 2.5}, {"w": 1, "b": 2.5}) == [None, None]
    assert diverge({"w": float("nan")}, {"w": float("nan")}) == [None, None]
    assert diverge({}, {}) == [None, None]
    check_divergence(SingleProcess("cpu"), {"policy": lambda: 1 / 0}, 1)  # One rank cannot diverge.


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (({"w": 1, "b": 1}, {"w": 1, "b": 2}), "iteration 7: policy.b differs .* rank\\(s\\) 1 "),
        (({"w": 1}, {"w": 2}, {"w": 1}, {"w": 3}), "policy.w differs .* rank\\(s\\) 1, 3 "),
        (({"w": 1, "b": 1}, {"w": 1}), "policy.b differs .* rank\\(s\\) 1 "),
        (({"w": 1}, {"w": 1, "b": 1}), "policy.b differs .* rank\\(s\\) 1 "),
        (({}, {"w": 1}), "policy.w differs .* rank\\(s\\) 1 "),
    ],
)
def test_what_differs_is_named_on_every_rank(ranks, message):
    for error in diverge(*ranks):
        with pytest.raises(DivergenceError, match=message):
            raise error


def test_equal_ranks_exchange_two_numbers():
    world = FakeWorld(4)
    watched = {"policy": lambda: {f"w{i}": i for i in range(100)}}
    world.run(lambda group: check_divergence(group, watched, 1))
    assert [(event.op, event.bytes) for event in world.trace] == [("all_reduce(min)", 16)]
