from __future__ import annotations

import pytest
import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd

from rltrain.testing import FakeWorld
from rltrain_rl_games.run.normalizers import PendingBatches, PooledMeanStd, pool_pending


def pooled(shape, **settings):
    return PooledMeanStd(torch.jit.script(RunningMeanStd(shape, **settings)))


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 4, 4)])
def test_one_collective_gives_two_ranks_the_moments_of_all_data(shape):
    torch.manual_seed(0)
    steps = [1e3 + 2 * torch.randn(2, 8, *shape) for _ in range(3)]

    def on_rank(group):
        normalizer, mine = pooled(shape), [step[group.rank] for step in steps]
        pool_pending(group, [PendingBatches(normalizer, mine, repeats=2)])
        return normalizer, [normalizer(batch) for batch in [*mine, *mine]]

    world = FakeWorld(2)
    (first, mine), (second, theirs) = world.run(on_rank)
    assert len(world.trace) == 1

    alone = RunningMeanStd(shape)
    for step, *outputs in zip([*steps, *steps], mine, theirs, strict=True):
        assert torch.allclose(torch.cat(outputs), alone(step.flatten(0, 1)), atol=1e-3)
    assert torch.allclose(first.running_mean, alone.running_mean, rtol=1e-7)
    assert torch.allclose(first.running_var, alone.running_var, rtol=1e-4)
    assert first.count == alone.count == 1 + 6 * 16
    equal = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in equal)


def test_ranks_may_have_batches_of_different_sizes():
    batches = [torch.randn(5, 2), torch.randn(3, 2)]

    def on_rank(group):
        normalizer = pooled((2,))
        pool_pending(group, [PendingBatches(normalizer, [batches[group.rank]])])
        normalizer(batches[group.rank])
        return normalizer

    alone = RunningMeanStd((2,))
    alone(torch.cat(batches))
    for normalizer in FakeWorld(2).run(on_rank):
        assert torch.allclose(normalizer.running_mean, alone.running_mean, atol=1e-6)
        assert torch.allclose(normalizer.running_var, alone.running_var, atol=1e-6)


def test_uint8_images_are_pooled_unchanged_and_passed_as_floats_from_0_to_1():
    images = torch.randint(0, 256, (6, 2, 2, 3), dtype=torch.uint8)

    def on_rank(group):
        normalizer = pooled((2, 2, 3))
        pool_pending(group, [PendingBatches(normalizer, [images])])
        normalizer(images.float() / 255)
        return normalizer

    alone = RunningMeanStd((2, 2, 3))
    alone(images.float() / 255)
    (normalizer,) = FakeWorld(1).run(on_rank)
    assert torch.allclose(normalizer.running_mean, alone.running_mean, atol=1e-6)
    assert torch.allclose(normalizer.running_var, alone.running_var, atol=1e-6)


def test_moments_of_other_data_share_the_collective():
    data = torch.arange(6.0)

    def on_rank(group):
        (moments,) = pool_pending(group, [], [data[group.rank * 3 : group.rank * 3 + 3]])
        return moments

    for moments in FakeWorld(2).run(on_rank):
        assert moments.count == 6
        assert float(moments.mean) == pytest.approx(2.5)
        assert float(moments.variance) == pytest.approx(float(data.var(unbiased=False)))


def test_an_update_that_normalizes_nothing_runs_no_collective():
    world = FakeWorld(2)
    assert world.run(lambda group: pool_pending(group, [])) == [[], []]
    assert not world.trace


@pytest.mark.parametrize("shape", [(4, 2), (3, 2)], ids=["another batch", "another shape"])
def test_normalizing_data_that_was_not_pooled_is_an_error(shape):
    def on_rank(group):
        normalizer = pooled((2,))
        pool_pending(group, [PendingBatches(normalizer, [torch.randn(4, 2)])])
        with pytest.raises(RuntimeError, match="not pooled"):
            normalizer(torch.randn(shape))

    FakeWorld(1).run(on_rank)


def test_evaluation_updates_nothing_and_needs_no_pooling():
    def on_rank(group):
        normalizer = pooled((2,))
        normalizer.eval()
        before = {name: value.clone() for name, value in normalizer.state_dict().items()}
        normalizer(torch.randn(4, 2))
        normalizer(torch.randn(4, 2), denorm=True)
        after = normalizer.state_dict()
        return normalizer.training, all(torch.equal(before[name], after[name]) for name in after)

    world = FakeWorld(1)
    assert world.run(on_rank) == [(False, True)]
    assert not world.trace


def test_its_state_uses_rl_games_names():
    assert pooled((2,)).state_dict().keys() == RunningMeanStd((2,)).state_dict().keys()
