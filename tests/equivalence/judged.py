"""Checks that ranks are equal, and learned what one rank learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltrain_devkit.as_one.alike import beyond, differences, is_exact

TOLERANCE = 1e-5
IN_FLOAT64 = 1e-10
"""Of computations in float32 and in float64."""

CONTROLS, MULTIPLE = 5, 4
"""Runs, at most, whose drift shows how far rounding leads, and how many times as far ranks may be:
it is chance how often Adam divides by almost nothing."""

AMPLIFIED = 100
"""So many times the tolerance, and not more, float64 may show to be rounding."""


def check_equal(split: Sequence[Any]) -> None:
    """Check that ranks ended equal to the last bit, after two iterations at least."""
    assert len(split[0].states) >= 2
    for run in split[1:]:
        apart = beyond(differences([run.last], [split[0].last]), 0.0)
        assert not apart, apart


def check_as_one(
    split: Sequence[Any], whole: Any, tolerance: float = TOLERANCE, again: Any = None
) -> None:
    """Check that ranks are equal, and equal the one rank after every iteration.

    A run has the `states` after each iteration, and the `last`. Only where they differ by more than
    the tolerance, a share of their scale, is `again` asked: for a `control` that is a rounding off,
    and for all of them `in_float64`, or None where the library cannot.
    """
    check_equal(split)
    found = differences(split[0].states, whole.states)
    apart = beyond(found, tolerance)
    if apart and again is not None:
        apart = _not_rounding(found, tolerance, whole, again)
    if apart:
        raise AssertionError(apart)


def _not_rounding(
    found: Mapping[str, float], tolerance: float, whole: Any, again: Any
) -> dict[str, float]:
    """Return the differences that rounding does not explain.

    It explains what is no farther off than a few times what a rounding of the initial weights does
    to the one rank, and what is gone in float64.
    """
    apart, drift = beyond(found, tolerance), dict.fromkeys(found, 0.0)
    if any(is_exact(name) for name in apart):
        return apart
    for seed in range(CONTROLS):
        control = differences(again.control(seed).states, whole.states)
        # A control that a schedule led elsewhere shows nothing about rounding.
        if not any(x for name, x in control.items() if is_exact(name)):
            drift = {name: max(x, MULTIPLE * control[name]) for name, x in drift.items()}
        apart = beyond(found, tolerance, drift)
        if not apart:
            return {}
    small = all(x <= AMPLIFIED * tolerance for x in apart.values())
    doubled = again.in_float64() if small else None
    if doubled is None:
        return apart
    split, one = doubled
    return beyond(differences(split[0].states, one.states), IN_FLOAT64)
