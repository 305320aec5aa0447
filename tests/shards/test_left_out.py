"""Updates that `--on-nonfinite skip` leaves out: N ranks go on as one rank does."""

from __future__ import annotations

import dataclasses

import pytest
from claims import CLAIMS
from judged import check_as_one
from shard_runs import Again, split_run, whole_run

from rltrain import hookimpl

pytestmark = pytest.mark.slow

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
