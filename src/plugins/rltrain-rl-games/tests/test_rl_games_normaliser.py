from __future__ import annotations

import pytest
import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd

from rltrain_rl_games.normaliser import PooledMeanStd


class Peer:
    """A process group of two ranks, of which the other one's part of each sum is known."""

    world_size = 2

    def __init__(self, others=()):
        self.given = []
        self.others = list(others)

    def all_reduce(self, x, op):
        assert op == "sum"
        self.given.append(x.clone())
        return x + self.others.pop(0) if self.others else x


def pooled(shape, batches, others, **settings):
    group = Peer(others)
    normaliser = PooledMeanStd(torch.jit.script(RunningMeanStd(shape, **settings)), group)
    outputs = [normaliser(batch) for batch in batches]
    return normaliser, outputs, group.given


@pytest.mark.parametrize(
    ("shape", "settings"), [((3,), {}), ((1,), {}), ((2, 4, 4), {"per_channel": True})]
)
def test_two_ranks_have_the_moments_of_one_rank_with_all_data(shape, settings):
    torch.manual_seed(0)
    first, second = ([1e3 + 2 * torch.randn(8, *shape) for _ in range(3)] for _ in range(2))
    # What a rank gives depends on the moments before, so that the parts are found step by step.
    parts = [[], []]
    for step in range(1, 4):
        for rank, data in enumerate((first, second)):
            parts[rank] = pooled(shape, data[:step], parts[1 - rank][: step - 1], **settings)[2]
    mine, outputs, _ = pooled(shape, first, parts[1], **settings)

    alone = RunningMeanStd(shape, **settings)
    for step, batches in enumerate(zip(first, second, strict=True)):
        expected = alone(torch.cat(batches))[:8]
        assert torch.allclose(outputs[step], expected, atol=1e-3)
    assert torch.allclose(mine.running_mean, alone.running_mean, rtol=1e-7)
    assert torch.allclose(mine.running_var, alone.running_var, rtol=1e-4)
    assert mine.count == alone.count == 1 + 3 * 16


def test_evaluation_updates_nothing_and_waits_for_nobody():
    normaliser, _, _ = pooled((2,), [torch.randn(4, 2)], [])
    normaliser.eval()
    before = {name: value.clone() for name, value in normaliser.state_dict().items()}
    normaliser._group.given.clear()
    normaliser(torch.randn(4, 2))
    normaliser(torch.randn(4, 2), denorm=True)
    assert normaliser._group.given == []
    assert all(torch.equal(before[name], value) for name, value in normaliser.state_dict().items())
    assert not normaliser.training


def test_its_state_has_rl_games_names():
    assert pooled((2,), [], [])[0].state_dict().keys() == RunningMeanStd((2,)).state_dict().keys()
