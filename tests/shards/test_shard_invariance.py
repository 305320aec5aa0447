"""N ranks learn as one rank with all their environments would."""

from __future__ import annotations

import pytest
from claims import CLAIMS, of_each_algorithm
from gloo_runs import gloo_run
from judged import IN_FLOAT64, check_as_one
from shard_runs import Again, prepared, split_run, whole_run


def marks(claim, ranks):
    if ranks > 2:
        return pytest.mark.slow
    return () if claim in of_each_algorithm() else pytest.mark.slow


CASES = [
    pytest.param(claim, ranks, id=f"{claim}-{ranks}", marks=marks(claim, ranks))
    for claim in CLAIMS
    for ranks in ((2, 4, 8) if claim.on_gloo else (2, 4))
]


@pytest.mark.slow
@pytest.mark.parametrize(("claim", "ranks"), CASES)
def test_ranks_learn_as_one(claim, ranks, tmp_path):
    claim = prepared(claim, tmp_path)
    split, whole = split_run(claim, ranks, tmp_path), whole_run(claim, ranks, tmp_path)
    check_as_one(split, whole, again=Again(claim, ranks, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_what_differs_is_rounding(claim, tmp_path):
    """In float64 there is next to none, and nothing else has to be allowed for."""
    split, whole = Again(prepared(claim, tmp_path), 2, tmp_path).in_float64()
    check_as_one(split, whole, IN_FLOAT64)


@pytest.mark.slow
@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.on_gloo], ids=str)
def test_real_ranks_learn_as_one(claim, tmp_path):
    split, whole = gloo_run(claim, 2, tmp_path), whole_run(claim, 2, tmp_path)
    check_as_one(split, whole, again=Again(claim, 2, tmp_path))
