"""Errors on N ranks are found, even if the ranks agree and no other check would notice."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from claims import CLAIMS
from judged import AMPLIFIED, TOLERANCE, check_as_one
from shard_runs import Again, split_run, whole_run

from rltrain import hookimpl
from rltrain_devkit.as_one.alike import beyond, differences
from rltrain_devkit.as_one.rounding import OffByRounding
from rltrain_devkit.as_one.united import Rows, VirtualRanks

pytestmark = pytest.mark.slow
LIBRARIES = ("rsl_rl", "rl_games", "skrl")


def claim_of(library):
    return next(c for c in CLAIMS if c.library == library and c.mini_batches == 1)


def apart(split, whole):
    """Return the names of the tensors that clearly differ from the one rank's."""
    found = differences([split[0].last], [whole.last])
    return set(beyond(found, AMPLIFIED * TOLERANCE))


class RankZerosGradients:
    """All ranks step with the gradients of the first."""

    @hookimpl(tryfirst=True)
    def rltrain_gradient_sync(self, session):
        return lambda gradients: [session.group.broadcast(x) for x in gradients]


@pytest.mark.parametrize("library", LIBRARIES)
def test_gradients_of_one_rank_only(library, tmp_path):
    claim = claim_of(library)
    split = split_run(claim, 2, tmp_path, RankZerosGradients)
    assert apart(split, whole_run(claim, 2, tmp_path))


class RankZerosStatistics:
    """Tensors of float64, the moments of normalizers, are as if all had the first rank's data."""

    @hookimpl(wrapper=True)
    def rltrain_init_distributed(self):
        group = yield
        pooled = group.all_reduce

        def all_reduce(x, op="sum"):
            if isinstance(x, torch.Tensor) and x.dtype == torch.float64:
                return group.broadcast(x) * group.world_size
            return pooled(x, op)

        group.all_reduce = all_reduce
        return group


@pytest.mark.parametrize("library", LIBRARIES)
def test_normalizers_of_one_rank_only(library, tmp_path):
    claim = claim_of(library)
    split = split_run(claim, 2, tmp_path, RankZerosStatistics)
    found = apart(split, whole_run(claim, 2, tmp_path))
    assert any(name.endswith("_mean") for name in found)


@pytest.mark.parametrize("library", LIBRARIES)
def test_noise_of_another_rank(library, tmp_path, monkeypatch):
    """What the one rank learns depends on whose noise an environment gets."""
    claim, begin = claim_of(library), VirtualRanks.begin
    split = split_run(claim, 2, tmp_path)
    monkeypatch.setattr(
        VirtualRanks, "begin", lambda self, seeds, *more: begin(self, seeds[::-1], *more)
    )
    assert apart(split, whole_run(claim, 2, tmp_path))


def one_element(x):
    changed = x.clone()
    changed.view(-1)[len(x) // 2] += 1e-3 * x.abs().max()
    return changed


@pytest.mark.parametrize("library", LIBRARIES)
def test_small_faults_in_what_was_learned(library, tmp_path):
    claim = claim_of(library)
    whole = whole_run(claim, 2, tmp_path)
    weights = [name for name in whole.last if "weight" in name]
    faults = {
        max(weights, key=lambda name: whole.last[name].numel()): one_element,
        "optimizer 0 learning rate 0": lambda x: x * 1.5,
        "optimizer 0 exp_avg_sq 2": lambda x: x * 1.01,
    }
    last = dict(whole.states[-1])
    last.update({name: fault(last[name]) for name, fault in faults.items()})
    planted = SimpleNamespace(states=[*whole.states[:-1], last], last=last)
    with pytest.raises(AssertionError) as caught:
        check_as_one([planted, planted], whole, again=Again(claim, 2, tmp_path))
    assert set(caught.value.args[0]) == set(faults)


def test_a_hundred_times_as_far_off_as_rounding_leads(tmp_path):
    """Ten times is chance here: how far Adam leads, where it divides by almost nothing, depends on
    the processor.
    """
    fast = {"agent.learning_rate": 1e-2, "agent.learning_rate_scheduler": None}
    claim = dataclasses.replace(claim_of("skrl"), agent={**claim_of("skrl").agent, **fast})
    whole = whole_run(claim, 2, tmp_path)

    def judge(*observers):
        split = split_run(claim, 2, tmp_path, *observers)
        found = differences(split[0].states, whole.states)
        assert beyond(found, TOLERANCE), "nothing is amplified"
        check_as_one(split, whole, again=Again(claim, 2, tmp_path, observers=observers))

    judge()
    with pytest.raises(AssertionError):
        judge(lambda: OffByRounding(1e-5, seed=7))


def test_what_cannot_be_split_among_ranks_is_an_error():
    rows = Rows(ranks=2, envs=4)
    noise = VirtualRanks(rows, lambda rows: rows)
    noise.begin([3, 4])
    with noise, pytest.raises(ValueError, match="cannot be split"):
        torch.randn(7)
    with noise, pytest.raises(NotImplementedError, match="rows of a batch"):
        torch.randint(5, 10, (4,))
    with pytest.raises(ValueError, match="blocks"):
        Rows(ranks=2, envs=4, blocks=3)
