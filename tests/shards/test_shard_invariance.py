"""N ranks learn as one rank with all their environments would."""

from __future__ import annotations

import pytest
from claims import CLAIMS
from gloo_runs import gloo_run
from shard_runs import prepared, split_run, whole_run
from watcher import differences

TOLERANCE = 1e-5


def check(split, whole):
    """Ranks are equal, and after every iteration what the one rank is."""
    assert len(split[0].states) == len(whole.states) >= 2
    for watcher in split[1:]:
        assert not off(watcher.last, split[0].last, 0.0)
    for state, expected in zip(split[0].states, whole.states, strict=True):
        assert not off(state, expected, TOLERANCE)


def off(state, expected, tolerance):
    apart = differences(state, expected)
    return {name: value for name, value in apart.items() if not value <= tolerance}


def of_each_algorithm():
    """Return the first claim of each algorithm."""
    first = {}
    for claim in CLAIMS:
        first.setdefault((claim.library, claim.algorithm), claim)
    return list(first.values())


CASES = [
    pytest.param(
        claim,
        ranks,
        id=f"{claim}-{ranks}",
        marks=() if ranks == 2 and claim in of_each_algorithm() else pytest.mark.long,
    )
    for claim in CLAIMS
    for ranks in (2, 4)
]


@pytest.mark.parametrize(("claim", "ranks"), CASES)
def test_ranks_learn_as_one(claim, ranks, tmp_path):
    claim = prepared(claim, tmp_path)
    check(split_run(claim, ranks, tmp_path), whole_run(claim, ranks, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.on_gloo], ids=str)
def test_real_ranks_learn_as_one(claim, tmp_path):
    check(gloo_run(claim, 2, tmp_path), whole_run(claim, 2, tmp_path))
