"""Episode statistics."""

from __future__ import annotations

from made_up_arrays import MadeUpArrays, OfKind, tensor

from rltrain.metrics.episodes import EpisodeCounter, EpisodeWindow


class EpisodeRules(OfKind):
    def test_episodes_are_counted_exactly(self, array):
        counter = EpisodeCounter(array.arrays)
        rewards = [[1.0, 10.0, 100.0], [2.0, 20.0, 200.0], [3.0, 30.0, 300.0]]
        terminations = [[False, False, True], [True, False, False], [False, False, False]]
        truncations = [[False, False, False], [False, False, True], [True, False, False]]
        for step in range(3):
            counter.step(array(rewards[step]), array(terminations[step]), array(truncations[step]))
        # Environment 0: 1 + 2 and 3; environment 2: 100 and 200; environment 1 continues.
        assert counter.take() == (3 + 3 + 100 + 200, 2 + 1 + 1 + 1, 4, 0, 0)
        assert counter.take() == (0, 0, 0, 0, 0)
        assert counter.steps == 9
        done = array([False, True, False])
        counter.step(array([0.0, 40.0, 0.0]), done, array([False, False, False]))
        assert counter.take()[:3] == (10 + 20 + 30 + 40, 4, 1)

    def test_an_episode_counts_once_and_a_restart_forgets_unfinished_ones(self, array):
        counter = EpisodeCounter(array.arrays)
        counter.step(array([5.0]), array([False]), array([False]))
        counter.restart()
        counter.step(array([1.0]), array([True]), array([True]))
        assert counter.take()[:3] == (1, 1, 1)
        assert counter.steps == 2

    def test_successes_are_counted_among_the_episodes_that_end(self, array):
        counter = EpisodeCounter(array.arrays)
        neither, last = array([False, False]), array([True, True])
        counter.step(array([0.0, 0.0]), neither, neither, success=array([True, True]))
        counter.step(array([0.0, 0.0]), last, neither, success=array([True, False]))
        counter.step(array([0.0, 0.0]), neither, last)
        assert counter.take() == (0, 6, 4, 1, 2)

    def test_a_counter_continues_from_another(self, array):
        counter, other = EpisodeCounter(array.arrays), EpisodeCounter(array.arrays)
        counter.step(array([5.0]), array([False]), array([False]))
        other.set_state(counter.get_state())
        for one in (counter, other):
            one.step(array([1.0]), array([True]), array([False]))
        assert counter.take() == other.take() == (6, 2, 1, 0, 0)
        assert counter.steps == other.steps == 2

    def test_inputs_are_not_changed(self, array):
        counter = EpisodeCounter(array.arrays)
        rewards = array([1.0, 2.0])
        for _ in range(2):
            counter.step(rewards, array([True, False]), array([False, False]))
        assert list(rewards) == [1.0, 2.0]


class TestNumpy(EpisodeRules):
    pass


class TestMadeUp(EpisodeRules):
    arrays, make = MadeUpArrays(), staticmethod(tensor)


def test_means_are_over_episodes_and_without_any_there_is_none():
    window = EpisodeWindow()
    window.add((0.0,) * 5)
    assert (window.mean_return, window.mean_length, window.kept) == (None, None, [])
    assert not window.reaches(0.0)
    window.add((100.0, 35.0, 10.0, 3.0, 4.0))
    window.add((100.0, 5.0, 10.0, 0.0, 0.0))
    assert (window.mean_return, window.mean_length) == (10.0, 2.0)
    assert window.success_rate == 0.75


def test_the_window_keeps_as_few_iterations_as_hold_enough():
    window = EpisodeWindow(episodes=10)
    for value in (1.0, 2.0, 3.0):
        assert not window.reaches(0.0)
        window.add((value * 4, 4.0, 4.0, 0.0, 0.0))
    assert window.reaches(2.0)
    assert (len(window.kept), window.mean_return) == (3, 2.0)
    window.add((16.0, 4.0, 4.0, 0.0, 0.0))
    assert (len(window.kept), window.mean_return) == (3, 3.0)
    window.add((100.0, 10.0, 10.0, 0.0, 0.0))
    assert (len(window.kept), window.mean_return) == (1, 10.0)
    assert EpisodeWindow(window.kept).mean_return == 10.0
