from __future__ import annotations

import pytest
import torch
from rl_games.algos_torch.torch_ext import AverageMeter

from rltrain.testing import FakeWorld
from rltrain_rl_games.run.agents import ContinuousAgent
from rltrain_rl_games.run.metrics import PooledMeter, pool_meters


@pytest.mark.parametrize("sizes", [(3, 5), (0, 4), (40, 30)], ids=["some", "none on one", "many"])
def test_two_ranks_have_the_same_meter_as_one_with_all_episodes(sizes):
    """Also where more episodes end in an epoch than the meter's window has."""
    generator = torch.Generator().manual_seed(0)
    steps, epochs = 6, []
    for _ in range(3):
        ends = [torch.randint(steps, (size,), generator=generator) for size in sizes]
        values = [torch.randn(size, 1, generator=generator) for size in sizes]
        epochs.append(
            [[values[rank][ends[rank] == step] for rank in (0, 1)] for step in range(steps)]
        )

    def on_rank(group):
        meter = PooledMeter(AverageMeter(1, 32), (1,))
        for epoch in epochs:
            for ended in epoch:
                meter.update(ended[group.rank])
            pool_meters(group, [meter])
        return meter

    alone = AverageMeter(1, 32)
    for epoch in epochs:
        for ended in epoch:
            alone.update(torch.cat(ended))
    world = FakeWorld(2)
    for meter in world.run(on_rank):
        assert torch.allclose(meter.mean, alone.mean, atol=1e-6)
        assert meter.current_size == alone.current_size
    assert len(world.trace) == len(epochs)


def test_an_epoch_without_episodes_changes_nothing():
    def on_rank(group):
        meters = [PooledMeter(AverageMeter(1, 8), (1, 1)), PooledMeter(AverageMeter(1, 8), (1,))]
        meters[0].update(torch.full((2, 1, 1), 3.0))
        meters[1].update(torch.zeros(0, 1))
        pool_meters(group, meters)
        pool_meters(group, meters)
        return [(meter.current_size, meter.get_mean().tolist()) for meter in meters]

    assert FakeWorld(2).run(on_rank) == [[(4, [3.0]), (0, 0.0)]] * 2


def test_the_entropy_coefficient_is_that_of_the_checkpoint():
    agent = object.__new__(ContinuousAgent)
    agent.entropy_coef, agent._central = 0.01, None
    agent.set_common_state({"meters": {}, "entropy_coef": 0.003})
    assert agent.entropy_coef == 0.003
