"""Every offered algorithm has a claim, and so a test; refusals come before any rank starts."""

from __future__ import annotations

import pytest
from claims import CLAIMS
from claims_jax import JAX
from helpers import refusal
from refused import REFUSED
from shard_runs import RANK_LOCAL

from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec
from rltrain.testing import FakeWorld


@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_every_algorithm_that_is_offered_is_claimed(library):
    offered = discover().get(LibrarySpec, library).algorithms
    assert {claim.algorithm for claim in CLAIMS if claim.library == library} == set(offered)


def test_every_algorithm_of_skrl_is_claimed_for_jax():
    offered = discover().get(LibrarySpec, "skrl").algorithms
    assert {claim.algorithm for claim in JAX} == set(offered)


def test_every_line_of_the_tables_is_different():
    names = [str(each) for each in (*CLAIMS, *JAX, *REFUSED)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("refused", REFUSED, ids=str)
def test_a_run_is_refused_before_it_starts(refused, tmp_path):
    started = []
    world = FakeWorld(2, rank_local=RANK_LOCAL.get(refused.library, ()))
    options = {name: getattr(refused, name) for name in ("library", "framework", "task", "agent")}
    options |= {"num_envs": 8, "max_iterations": 1, "log_root": str(tmp_path)}
    options["algorithm"] = refused.base or refused.algorithm
    observers = [lambda: started.append("a rank")]
    assert refused.reason in refusal(world.train, observers=observers, **options)
    assert not started
    assert not list(tmp_path.iterdir())
