"""N ranks learn as one rank with all their environments would, and leave out what it would."""

from __future__ import annotations

import dataclasses

import pytest
from claims import CLAIMS, of_each_algorithm
from gloo_runs import gloo_run
from judged import IN_FLOAT64, check_as_one
from shard_runs import Again, prepared, split_run, whole_run

from rltrain import hookimpl


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


EPOCHS = 3


class Broken:
    """An observer that makes the gradients of some updates infinite."""

    def __init__(self, updates):
        self._updates, self._count = updates, 0

    @hookimpl(wrapper=True)
    def rltrain_gradient_sync(self):
        sync = yield

        def broken(gradients):
            self._count += 1
            if self._count in self._updates:
                gradients = [x * float("inf") if x is not None and x.ndim else x for x in gradients]
            return sync(gradients)

        return broken


@pytest.mark.slow
@pytest.mark.parametrize("updates", [[5], [4, 5, 6, 7, 8]], ids=["an epoch's first", "an epoch"])
@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_after_left_out_updates_learning_rates_and_all_else_are_those_of_one_rank(
    library, updates, tmp_path
):
    # Their learning rates are adapted by the KL divergence.
    (claim,) = [each for each in CLAIMS if str(each) == f"{library} ppo: 4 mini-batches"]
    claim = dataclasses.replace(claim, on_nonfinite="skip")
    split = split_run(claim, 2, tmp_path, lambda: Broken(updates))
    whole = whole_run(claim, 2, tmp_path, "cpu", Broken(updates))
    steps = [x for name, x in whole.last.items() if name.startswith("optimizer 0 step")]
    assert steps[0] == EPOCHS * 4 * len(whole.states) - len(updates)
    assert all(x.isfinite().all() for x in whole.last.values())
    check_as_one(split, whole, again=Again(claim, 2, tmp_path))
