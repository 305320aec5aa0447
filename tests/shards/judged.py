"""Checks that ranks are equal, and learned what one rank learns."""

from __future__ import annotations

from collections.abc import Sequence

from watcher import State, Watcher, differences

__all__ = ["TOLERANCE", "check_as_one", "check_equal"]

TOLERANCE = 1e-5


def check_equal(split: Sequence[Watcher]) -> None:
    """Check that ranks ended equal to the last bit, after two iterations at least."""
    assert len(split[0].states) >= 2
    for watcher in split[1:]:
        apart = _off(watcher.last, split[0].last, 0.0)
        assert not apart, apart


def check_as_one(split: Sequence[Watcher], whole: Watcher, tolerance: float = TOLERANCE) -> None:
    """Check that ranks are equal, and equal the one rank after every iteration."""
    check_equal(split)
    assert len(split[0].states) == len(whole.states)
    for state, expected in zip(split[0].states, whole.states, strict=True):
        apart = _off(state, expected, tolerance)
        assert not apart, apart


def _off(state: State, expected: State, tolerance: float) -> dict[str, float]:
    apart = differences(state, expected)
    # Metrics depend on all of the learned state, whose differences add up.
    return {
        name: value
        for name, value in apart.items()
        if not value <= tolerance * (10 if name.startswith("recorded") else 1)
    }
