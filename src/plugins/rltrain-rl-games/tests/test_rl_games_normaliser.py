from __future__ import annotations

import pytest
import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd

from rltrain.testing import FakeWorld
from rltrain_rl_games.normaliser import PooledMeanStd


def pooled(group, shape, **settings):
    return PooledMeanStd(torch.jit.script(RunningMeanStd(shape, **settings)), group)


@pytest.mark.parametrize(
    ("shape", "settings"), [((3,), {}), ((1,), {}), ((2, 4, 4), {"per_channel": True})]
)
def test_two_ranks_have_the_moments_of_one_rank_with_all_data(shape, settings):
    torch.manual_seed(0)
    steps = [1e3 + 2 * torch.randn(2, 8, *shape) for _ in range(3)]

    def on_rank(group):
        normaliser = pooled(group, shape, **settings)
        return normaliser, [normaliser(step[group.rank]) for step in steps]

    world = FakeWorld(2)
    (first, mine), (second, theirs) = world.run(on_rank)
    assert len(world.trace) == len(steps)

    alone = RunningMeanStd(shape, **settings)
    for step, *outputs in zip(steps, mine, theirs, strict=True):
        assert torch.allclose(torch.cat(outputs), alone(step.flatten(0, 1)), atol=1e-3)
    assert torch.allclose(first.running_mean, alone.running_mean, rtol=1e-7)
    assert torch.allclose(first.running_var, alone.running_var, rtol=1e-4)
    assert first.count == alone.count == 1 + 3 * 16
    equal = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in equal)


def test_evaluation_updates_nothing_and_waits_for_nobody():
    def on_rank(group):
        normaliser = pooled(group, (2,))
        normaliser(torch.randn(4, 2))
        normaliser.eval()
        before = {name: value.clone() for name, value in normaliser.state_dict().items()}
        if group.rank == 0:
            normaliser(torch.randn(4, 2))
            normaliser(torch.randn(4, 2), denorm=True)
        after = normaliser.state_dict()
        return normaliser.training, all(torch.equal(before[name], after[name]) for name in after)

    world = FakeWorld(2)
    assert world.run(on_rank) == [(False, True)] * 2
    assert len(world.trace) == 1


def test_its_state_has_rl_games_names():
    (names,) = FakeWorld(1).run(lambda group: pooled(group, (2,)).state_dict().keys())
    assert names == RunningMeanStd((2,)).state_dict().keys()
