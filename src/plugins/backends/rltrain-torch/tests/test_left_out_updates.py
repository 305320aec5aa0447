"""What `--on-nonfinite skip` leaves out: updates, and batches of which moments cannot be kept."""

from __future__ import annotations

import pytest
import torch

from rltrain.errors import NonFiniteError
from rltrain.metrics.numbers import NonFiniteCheck
from rltrain.testing import FakeWorld
from rltrain_torch.arrays import TorchArrays
from rltrain_torch.gradients import FlatSync, sync_before_step
from rltrain_torch.moments import Moments, pool_moments


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
        with pytest.raises(NonFiniteError, match="every update was left out"):
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
