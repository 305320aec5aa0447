"""Errors on N ranks are found, even if the ranks agree and no other check would notice."""

from __future__ import annotations

import pytest
import torch
from claims import CLAIMS
from shard_runs import split_run, whole_run
from virtual_ranks import VirtualRanks
from watcher import differences

from rltrain import hookimpl

pytestmark = pytest.mark.long
LIBRARIES = ("rsl_rl", "rl_games", "skrl")
APART = 1e-4


def claim_of(library):
    return next(c for c in CLAIMS if c.library == library and c.mini_batches == 1)


def apart(split, whole):
    """Return the names of the tensors that clearly differ from the one rank's."""
    found = differences(split[0].last, whole.last)
    return {name for name, value in found.items() if value > APART}


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
        return Unpooled((yield))


class Unpooled:
    def __init__(self, group):
        self._group = group

    def __getattr__(self, name):
        return getattr(self._group, name)

    def all_reduce(self, x, op="sum"):
        if isinstance(x, torch.Tensor) and x.dtype == torch.float64:
            return self._group.broadcast(x) * self._group.world_size
        return self._group.all_reduce(x, op)


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
