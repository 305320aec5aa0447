"""Moments pooled over ranks; what `--on-nonfinite skip` leaves out."""

from __future__ import annotations

import pytest
import torch
from messages import says

from rltrain.errors import NonFiniteError
from rltrain.metrics.numbers import NonFiniteCheck
from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld
from rltrain_torch.arrays import TorchArrays
from rltrain_torch.gradients import FlatSync, sync_before_step
from rltrain_torch.moments import Moments, pool_moments, standardize


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


def train(group, bad, reached):
    """Do an iteration of two updates for each number of bad ones; note how far it got."""
    numbers = NonFiniteCheck("skip", TorchArrays())
    parameters = [torch.nn.Parameter(torch.zeros(2))]
    sync = numbers.checked(FlatSync(group, parameters), parameters)
    for iteration, updates in enumerate(bad, start=1):
        for update in range(2):
            is_bad = update < updates and group.rank == group.world_size - 1
            averaged = sync([torch.full((2,), torch.nan if is_bad else 1.0)])
            assert (averaged is None) == (update < updates)
        counts = torch.tensor([float(count) for count in numbers.count({})])
        numbers.react(group, group.all_reduce(counts, "sum").tolist(), iteration)
        reached[group.rank] = iteration


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_that_learns_nothing_any_more_ends(ranks):
    reached = {}

    def work(group):
        with says(NonFiniteError):
            train(group, [1, *[2] * 9, 1, *[2] * 30], reached)

    FakeWorld(ranks).run(work)
    assert reached == dict.fromkeys(range(ranks), 20)  # The next one is the tenth in a row.


def test_one_rank_whose_library_calls_no_sync_leaves_out_an_update():
    parameters = [torch.nn.Parameter(torch.ones(2))]
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    numbers = NonFiniteCheck("skip", TorchArrays())

    def work(group):
        sync_before_step(
            optimizer, numbers.checked(FlatSync(group, parameters), parameters), parameters
        )
        for value in (torch.nan, 1.0):
            parameters[0].grad = torch.full((2,), value)
            optimizer.step()

    FakeWorld(1).run(work)
    assert optimizer.state[parameters[0]]["step"] == 1
    torch.testing.assert_close(parameters[0].data, torch.full((2,), 0.9))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 3e38])
@pytest.mark.parametrize("before", [0, 5])
def test_a_batch_that_float32_cannot_hold_changes_no_running_moments(bad, before):
    running = Moments(torch.tensor(float(before)), torch.zeros(2), torch.ones(2))

    def work(group):
        data = torch.tensor([[1.0, bad if group.rank else 2.0], [3.0, 4.0]])
        (pooled,) = pool_moments(group, [(data, None)])
        return running.merge(pooled.usable())

    for merged in FakeWorld(2).run(work):
        assert merged.count == before
        torch.testing.assert_close(merged.mean.float(), running.mean)
        torch.testing.assert_close(merged.variance.float(), running.variance)
