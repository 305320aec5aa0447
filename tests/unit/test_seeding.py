"""Seed streams: deterministic, independent, and separate for each rank."""

from __future__ import annotations

import random

import numpy as np
import pytest
from messages import says

from rltrain.run.seeding import CoreSeeding
from rltrain.seeding import SeedPlan, draw_seed

STREAMS = ("model", "environment", "learner")


@pytest.mark.parametrize(("stream", "seeds"), [("model", 1), ("environment", 64), ("learner", 64)])
def test_the_model_seed_is_equal_on_all_ranks_and_other_streams_differ(stream, seeds):
    assert len({SeedPlan(42, rank).seed(stream) for rank in range(64)}) == seeds


def test_streams_and_neighboring_base_seeds_do_not_overlap():
    seeds = [
        SeedPlan(base, rank).seed(stream)
        for base in range(16)
        for rank in range(16)
        for stream in STREAMS
        if rank == 0 or stream != "model"
    ]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("stream", STREAMS)
def test_a_run_that_goes_on_draws_other_numbers_after_any_iteration(stream):
    assert len({SeedPlan(42, 1, done).seed(stream) for done in range(64)}) == 64


def test_derived_seeds_never_change():
    # A change here would change every run with a fixed seed.
    plan = SeedPlan(42, 1)
    assert (plan.model, plan.environment, plan.learner) == (995508986, 500939758, 439585157)


@pytest.mark.parametrize("base", [0, 1, 2**31 - 1, 2**40])
def test_every_generator_accepts_the_seeds(base):
    plan = SeedPlan(base, 3)
    for stream in STREAMS:
        assert 0 <= plan.seed(stream) < 2**31
        assert plan.seed(stream) == getattr(plan, stream)
        assert type(plan.seed(stream)) is int


def test_the_core_seeds_random_and_numpy():
    CoreSeeding().rltrain_seed(seed=5)
    first = random.random(), np.random.rand()
    CoreSeeding().rltrain_seed(seed=5)
    assert (random.random(), np.random.rand()) == first
    CoreSeeding().rltrain_seed(seed=6)
    assert (random.random(), np.random.rand()) != first


def test_a_drawn_seed_does_not_depend_on_the_generators():
    random.seed(0)
    first = draw_seed()
    random.seed(0)
    assert draw_seed() != first
    assert 0 <= first < 2**31


def test_an_unknown_stream_is_named():
    with says(ValueError):
        SeedPlan(42, 0).seed("learning")
