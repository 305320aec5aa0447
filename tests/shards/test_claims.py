"""Every offered algorithm has a claim, and so a test."""

from __future__ import annotations

import pytest
from claims import CLAIMS
from claims_jax import JAX
from refused import REFUSED

from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec


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
