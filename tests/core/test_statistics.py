"""Figures merged over ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fake_ranks import run_ranks

from rltrain.errors import DivergenceError
from rltrain.group import SingleProcess
from rltrain.statistics import (
    EpisodeCounter,
    EpisodeWindow,
    check_divergence,
    gather_in_step,
    merge_scalars,
)


@pytest.mark.parametrize(
    ("name", "merged"), [("loss", 3.0), ("t (min)", 1.0), ("t (max)", 6.0), ("t (sum)", 9.0)]
)
def test_scalars_are_merged_by_their_names(name, merged):
    assert merge_scalars([{name: 1}, {name: 2.0}, {name: np.float32(6)}]) == {name: merged}


def test_a_scalar_that_some_ranks_lack_is_merged_over_the_others():
    merged = merge_scalars([{"a": 1.0}, {"b": 2.0}, {"a": 3.0}])
    assert merged == {"a": 2.0, "b": 2.0}
    assert list(merged) == ["a", "b"]
    assert merge_scalars([{}, {}]) == {}


@pytest.fixture(params=["numpy", "torch"])
def array(request):
    """Make an array of each framework."""
    return np.asarray if request.param == "numpy" else torch.as_tensor


def test_episodes_are_counted_exactly(array):
    counter = EpisodeCounter()
    rewards = [[1.0, 10.0, 100.0], [2.0, 20.0, 200.0], [3.0, 30.0, 300.0]]
    terminations = [[False, False, True], [True, False, False], [False, False, False]]
    truncations = [[False, False, False], [False, False, True], [True, False, False]]
    for step in range(3):
        counter.step(array(rewards[step]), array(terminations[step]), array(truncations[step]))
    # Environment 0: 1 + 2 and 3; environment 2: 100 and 200; environment 1 goes on.
    assert counter.take() == (3 + 3 + 100 + 200, 2 + 1 + 1 + 1, 4)
    assert counter.take() == (0, 0, 0)
    assert counter.steps == 9
    done = array([False, True, False])
    counter.step(array([0.0, 40.0, 0.0]), done, array([False, False, False]))
    assert counter.take() == (10 + 20 + 30 + 40, 4, 1)


def test_an_episode_that_is_ended_and_cut_off_at_once_counts_once(array):
    counter = EpisodeCounter()
    counter.step(array([1.0]), array([True]), array([True]))
    assert counter.take() == (1, 1, 1)


def test_a_restart_forgets_unfinished_episodes(array):
    counter, done = EpisodeCounter(), array([True])
    counter.step(array([5.0]), array([False]), array([False]))
    counter.restart()
    counter.step(array([1.0]), done, array([False]))
    assert counter.take() == (1, 1, 1)
    assert counter.steps == 2


def test_what_is_given_is_not_changed(array):
    counter = EpisodeCounter()
    rewards = array([1.0, 2.0])
    for _ in range(2):
        counter.step(rewards, array([True, False]), array([False, False]))
    assert list(rewards) == [1.0, 2.0]


def test_no_episode_has_no_mean():
    window = EpisodeWindow()
    window.add([(0.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
    assert (window.mean_return, window.mean_length, window.count) == (None, None, 0)
    assert not window.full


def test_the_mean_is_over_episodes_not_over_ranks():
    window = EpisodeWindow()
    window.add([(10.0, 5.0, 1.0), (90.0, 30.0, 9.0)])
    assert (window.mean_return, window.mean_length, window.count) == (10.0, 3.5, 10)


def test_the_window_keeps_as_few_iterations_as_hold_enough():
    window = EpisodeWindow(episodes=10)
    for value in (1.0, 2.0, 3.0):
        window.add([(value * 4, 4.0, 4.0)])
    assert window.full
    assert (window.count, window.mean_return) == (12, 2.0)
    window.add([(16.0, 4.0, 4.0)])
    assert (window.count, window.mean_return) == (12, 3.0)
    window.add([(100.0, 10.0, 10.0)])
    assert (window.count, window.mean_return) == (10, 10.0)


def diverge(*ranks):
    """Check named fingerprints, rank by rank; return what each rank raised."""
    return run_ranks(
        len(ranks),
        lambda group: check_divergence(group, {"policy": lambda: ranks[group.rank]}, 7),
    )


def test_equal_ranks_pass():
    assert diverge({"w": 1, "b": 2.5}, {"w": 1, "b": 2.5}) == [None, None]
    assert diverge({"w": float("nan")}, {"w": float("nan")}) == [None, None]
    assert diverge({}, {}) == [None, None]


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        (({"w": 1, "b": 1}, {"w": 1, "b": 2}), "iteration 7: policy.b differs .* rank\\(s\\) 1 "),
        (({"w": 1}, {"w": 2}, {"w": 1}, {"w": 3}), "policy.w differs .* rank\\(s\\) 1, 3 "),
        (({"w": 1, "b": 1}, {"w": 1}), "policy.b differs .* rank\\(s\\) 1 "),
        (({"w": 1}, {"w": 1, "b": 1}), "policy.b differs .* rank\\(s\\) 1 "),
        (({}, {"w": 1}), "policy.w differs .* rank\\(s\\) 1 "),
    ],
)
def test_what_differs_is_named_on_every_rank(ranks, said):
    for error in diverge(*ranks):
        with pytest.raises(DivergenceError, match=said):
            raise error


def test_ranks_that_are_out_of_step_are_told_apart():
    errors = run_ranks(2, lambda group: gather_in_step(group, f"records {group.rank}", None))
    for error in errors:
        with pytest.raises(DivergenceError, match="rank 0 records 0, rank 1 records 1"):
            raise error


def test_one_rank_cannot_diverge():
    check_divergence(SingleProcess("cpu"), {"policy": lambda: 1 / 0}, 1)
