"""Moments pooled over ranks."""

from __future__ import annotations

import pytest
import torch

from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld
from rltrain_torch.moments import pool_moments, standardize


@pytest.fixture
def data():
    return 1e3 + 2 * torch.randn(12, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("reference", [None, torch.full((3,), 1e3)])
def test_moments_are_those_of_all_ranks_data(data, reference):
    def on_rank(group):
        return pool_moments(group, [(data[: 4 + 8 * group.rank][4 * group.rank :], reference)])

    world = FakeWorld(2)
    for [moments] in world.run(on_rank):
        assert moments.count == 12
        torch.testing.assert_close(moments.mean, data.double().mean(0))
        torch.testing.assert_close(moments.variance, data.double().var(0, unbiased=False))
        torch.testing.assert_close(moments.unbiased_variance, data.double().var(0))
        torch.testing.assert_close(moments.unbiased_std, data.double().std(0))
    assert len(world.trace) == 1


def test_merged_and_scaled_moments_are_those_of_the_data(data):
    def on_rank(group):
        first, second, whole = pool_moments(
            group, [(data[:5], None), (data[5:], None), (data * 0.5, None)]
        )
        return first.merge(second).scale(0.5), whole

    [(merged, whole)] = FakeWorld(1).run(on_rank)
    assert merged.count == whole.count
    torch.testing.assert_close(merged.mean, whole.mean)
    torch.testing.assert_close(merged.variance, whole.variance)


def test_standardize_does_what_torch_does_with_all_data(data):
    def on_rank(group):
        mine = data.chunk(2)[group.rank]
        [moments] = pool_moments(group, [(mine, None)])
        return standardize(mine, moments)

    standardized = torch.cat(FakeWorld(2).run(on_rank))
    expected = (data - data.mean(0)) / (data.std(0) + 1e-8)
    torch.testing.assert_close(standardized, expected, rtol=1e-3, atol=1e-3)
    assert standardized.dtype == data.dtype


def test_the_variance_of_a_constant_is_never_negative():
    """Rounding would make it so, and a normalizer's standard deviation NaN."""
    generator = torch.Generator().manual_seed(0)
    for value in torch.rand(100, generator=generator, dtype=torch.float64):
        [moments] = pool_moments(SingleProcess("cpu"), [(value.expand(7, 1), None)])
        assert 0 <= moments.variance < 1e-12
