"""Moments over ranks are those of all data, to float64, in one collective."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from rltrain.testing import FakeWorld
from rltrain_jax.moments import Moments, merge_moments, pool_moments


def test_moments_are_those_of_all_ranks_data():
    random = np.random.default_rng(0)
    # Far from zero, with a spread that float32 sums of squares would lose.
    data = (5000.0 + 0.1 * random.normal(size=(40, 3))).astype(np.float32)
    other = random.normal(size=(12, 1)).astype(np.float32)
    about = jnp.full(3, 5000.5)

    def on_rank(group):
        cut = slice(0, 30) if group.rank == 0 else slice(30, 40)
        own = other if group.rank else other[:0]
        pairs = [(jnp.asarray(data[cut]), about), (jnp.asarray(own), jnp.zeros(1))]
        found = pool_moments(group, pairs)
        assert not jax.config.jax_enable_x64
        assert jnp.zeros(1).dtype == jnp.float32
        return found

    world = FakeWorld(2)
    (first, second), others = world.run(on_rank)
    assert len(world.trace) == 1
    exact = data.astype(np.float64)
    assert first.count == 40
    assert np.allclose(first.mean, exact.mean(0), rtol=1e-13)
    assert np.allclose(first.variance, exact.var(0), rtol=1e-9)
    assert second.count == 12
    assert np.allclose(second.variance, other.astype(np.float64).var(0), rtol=1e-12)
    assert np.array_equal(first.mean, others[0].mean)


def test_one_rank_needs_no_collective():
    world = FakeWorld(1)
    ((found,),) = world.run(lambda group: pool_moments(group, [(jnp.arange(4.0), jnp.zeros(()))]))
    assert not world.trace
    assert (found.count, found.mean, found.variance) == (4, 1.5, 1.25)


def test_merged_moments_are_those_of_all_data():
    random = np.random.default_rng(1)
    data = 100 + random.normal(size=(50, 3))
    parts = [Moments(len(x), x.mean(0), x.var(0)) for x in (data[:20], data[20:])]
    merged = merge_moments(*parts)
    assert merged.count == 50
    assert np.allclose(merged.mean, data.mean(0), rtol=1e-13)
    assert np.allclose(merged.variance, data.var(0), rtol=1e-9)
    assert np.allclose(merged.unbiased_variance, data.var(0, ddof=1), rtol=1e-9)
