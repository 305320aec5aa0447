"""N ranks learn as one rank with all their environments would."""

from __future__ import annotations

import pytest
from claims import CLAIMS, of_each_algorithm
from gloo_runs import gloo_run
from judged import check_as_one
from shard_runs import prepared, split_run, whole_run


def marks(claim, ranks):
    if ranks == 4:
        return pytest.mark.long, pytest.mark.sample
    return () if claim in of_each_algorithm() else pytest.mark.long


CASES = [
    pytest.param(claim, ranks, id=f"{claim}-{ranks}", marks=marks(claim, ranks))
    for claim in CLAIMS
    for ranks in (2, 4)
]


@pytest.mark.parametrize(("claim", "ranks"), CASES)
def test_ranks_learn_as_one(claim, ranks, tmp_path):
    claim = prepared(claim, tmp_path)
    check_as_one(split_run(claim, ranks, tmp_path), whole_run(claim, ranks, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.on_gloo], ids=str)
def test_real_ranks_learn_as_one(claim, tmp_path):
    check_as_one(gloo_run(claim, 2, tmp_path), whole_run(claim, 2, tmp_path))
