"""Every pair of values of two options, in one run: it learns as one rank, or is refused first."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from helpers import refusal
from judged import check_as_one, check_equal
from pairs import pairs
from shard_runs import RANK_LOCAL, Again, Environments, options, prepared, split_run, whole_run
from support_table import TABLES

from rltrain.testing import FakeWorld

TRAINED = [combination for table in TABLES for combination in table.trained]
REFUSED = [each for table in TABLES for each in table.refused]


def half_lstm_runs():
    """Return whether torch has an LSTM in bfloat16 on this CPU. Without AVX-512, it has none."""
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        try:
            torch.nn.LSTM(1, 1)(torch.zeros(1, 1, 1))
        except RuntimeError:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("combination", TRAINED, ids=str)
def test_a_combination_learns_as_one_rank(combination, tmp_path):
    claim = prepared(combination.claim, tmp_path)
    values = combination.values
    half = values.get("use_mixed_precision") == "yes"
    if half and values.get("recurrent") in ("lstm", "the actor alone") and not half_lstm_runs():
        return
    split = split_run(claim, 2, tmp_path)
    if combination.has_twin:
        whole = whole_run(claim, 2, tmp_path)
        check_as_one(split, whole, again=Again(claim, 2, tmp_path))
    else:
        check_equal(split)


@pytest.mark.slow
@pytest.mark.parametrize(("combination", "clash"), REFUSED, ids=[str(each) for each, _ in REFUSED])
def test_a_combination_is_refused_before_it_learns(combination, clash, tmp_path):
    # The refused options may also be the teacher's: any student will do.
    checkpoint = prepared(combination.table.base, tmp_path).checkpoint
    claim = dataclasses.replace(combination.claim, checkpoint=checkpoint)
    started = []
    observers = [lambda: Environments(claim), lambda: started.append("a rank")]
    world = FakeWorld(2, rank_local=RANK_LOCAL.get(claim.library, ()))
    said = refusal(world.train, observers=observers, **options(claim, 1, tmp_path))
    # With an older rsl_rl, unknown options are refused in any combination.
    assert clash.reason in said or "rsl_rl has it from version" in said
    assert clash.once_made or not started


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_two_values_appear_together_in_a_run_or_clash(table):
    met = {pair for each in table.trained for pair in pairs(each.values)}
    for pair in table.all_pairs():
        assert pair in met or any(clash.among(dict(pair)) for clash in table.clashes), pair
