from __future__ import annotations

import pytest
import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd

from rltrain.testing import FakeWorld
from rltrain_rl_games.normaliser import Expected, PooledMeanStd, expect


def pooled(shape, **settings):
    return PooledMeanStd(torch.jit.script(RunningMeanStd(shape, **settings)))


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 4, 4)])
def test_two_ranks_have_the_moments_of_one_rank_with_all_data_for_one_collective(shape):
    torch.manual_seed(0)
    steps = [1e3 + 2 * torch.randn(2, 8, *shape) for _ in range(3)]

    def on_rank(group):
        normaliser, mine = pooled(shape), [step[group.rank] for step in steps]
        expect(group, [Expected(normaliser, mine, rounds=2)])
        return normaliser, [normaliser(batch) for batch in [*mine, *mine]]

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
        normaliser = pooled((2,))
        expect(group, [Expected(normaliser, [batches[group.rank]])])
        normaliser(batches[group.rank])
        return normaliser

    alone = RunningMeanStd((2,))
    alone(torch.cat(batches))
    for normaliser in FakeWorld(2).run(on_rank):
        assert torch.allclose(normaliser.running_mean, alone.running_mean, atol=1e-6)
        assert torch.allclose(normaliser.running_var, alone.running_var, atol=1e-6)


def test_images_of_bytes_are_announced_as_they_are_and_come_between_0_and_1():
    images = torch.randint(0, 256, (6, 2, 2, 3), dtype=torch.uint8)

    def on_rank(group):
        normaliser = pooled((2, 2, 3))
        expect(group, [Expected(normaliser, [images])])
        normaliser(images.float() / 255)
        return normaliser

    alone = RunningMeanStd((2, 2, 3))
    alone(images.float() / 255)
    (normaliser,) = FakeWorld(1).run(on_rank)
    assert torch.allclose(normaliser.running_mean, alone.running_mean, atol=1e-6)
    assert torch.allclose(normaliser.running_var, alone.running_var, atol=1e-6)


def test_moments_of_other_data_go_with_the_same_collective():
    data = torch.arange(6.0)

    def on_rank(group):
        (moments,) = expect(group, [], [data[group.rank * 3 : group.rank * 3 + 3]])
        return moments

    for moments in FakeWorld(2).run(on_rank):
        assert moments.count == 6
        assert float(moments.mean) == pytest.approx(2.5)
        assert float(moments.variance) == pytest.approx(float(data.var(unbiased=False)))


def test_an_update_that_normalises_nothing_asks_no_rank():
    world = FakeWorld(2)
    assert world.run(lambda group: expect(group, [])) == [[], []]
    assert not world.trace


@pytest.mark.parametrize("shape", [(4, 2), (3, 2)], ids=["another batch", "another shape"])
def test_data_that_was_not_announced_is_an_error(shape):
    def on_rank(group):
        normaliser = pooled((2,))
        expect(group, [Expected(normaliser, [torch.randn(4, 2)])])
        with pytest.raises(RuntimeError, match="not announced"):
            normaliser(torch.randn(shape))

    FakeWorld(1).run(on_rank)


def test_evaluation_updates_nothing_and_needs_no_announcement():
    def on_rank(group):
        normaliser = pooled((2,))
        normaliser.eval()
        before = {name: value.clone() for name, value in normaliser.state_dict().items()}
        normaliser(torch.randn(4, 2))
        normaliser(torch.randn(4, 2), denorm=True)
        after = normaliser.state_dict()
        return normaliser.training, all(torch.equal(before[name], after[name]) for name in after)

    world = FakeWorld(1)
    assert world.run(on_rank) == [(False, True)]
    assert not world.trace


def test_its_state_has_rl_games_names():
    assert pooled((2,)).state_dict().keys() == RunningMeanStd((2,)).state_dict().keys()
