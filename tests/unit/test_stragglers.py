"""A slow rank is named once, with the phase that is slow; those that wait for it are not."""

from __future__ import annotations

import pytest
from messages import check_said

from rltrain.ranks.pulse import PulseWriter
from rltrain.ranks.verdict import Stragglers

FAST = (0.02, 0.03)


def named(*seconds, iterations=30) -> list[str]:
    stragglers = Stragglers()
    return [line for _ in range(iterations) for line in stragglers.find(seconds)]


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_rank_with_slow_environments_is_named_once(ranks):
    (line,) = named(*[FAST] * (ranks - 1), (0.1, 0.03))
    check_said(line)


def test_ten_iterations_in_a_row_after_the_first():
    assert not named(FAST, (0.2, 0.03), iterations=10)
    assert named(FAST, (0.2, 0.03), iterations=11)
    stragglers = Stragglers()
    for iteration in range(40):
        slow = 0.02 if iteration % 10 == 9 else 0.2
        assert not stragglers.find([FAST, (slow, 0.03)])


@pytest.mark.parametrize(
    "seconds",
    [
        *((FAST, FAST), ((0.0, 0.0), (0.5, 0.5))),
        (FAST, (0.035, 0.03)),  # Not twice.
        ((0.001, 0.03), (0.003, 0.03)),  # It costs next to nothing.
        ((0.001, 0.002), (0.02, 0.002)),  # Noise.
    ],
)
def test_others_are_not(seconds):
    assert not named(*seconds)


def test_a_rank_that_waits_within_its_update_is_not_named():
    """As where collectives return at once, and a later read waits for them."""
    (line,) = named((0.1, 0.03), (0.02, 0.11))
    check_said(line)
    (line,) = named((0.02, 0.2), FAST, FAST)
    check_said(line)
    assert not named((0.02, 0.11), (0.02, 0.11), (0.02, 0.11))


def test_the_pulse_counts_seconds_in_environments_and_in_collectives(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("rltrain.ranks.pulse.time.perf_counter", lambda: now[0])
    pulse = PulseWriter()
    with pulse.during("stepping the environment"):
        now[0] += 2.0
    pulse.enter("barrier")
    now[0] += 3.0
    pulse.leave()
    with pulse.during("saving a checkpoint"):
        now[0] += 4.0
    assert (pulse.stepping, pulse.waiting) == (2.0, 3.0)
