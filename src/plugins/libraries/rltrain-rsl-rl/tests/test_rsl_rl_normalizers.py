"""Normalizers of observations on the ranks of a fake world."""

from __future__ import annotations

import copy

import pytest
import torch
from rsl_rl.modules import EmpiricalNormalization
from torch import nn

from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld
from rltrain_rsl_rl.run.normalizers import NormalizerPool, PooledNormalization


class Model(nn.Module):
    """A model with a normalizer where rsl_rl's have theirs."""

    def __init__(self, size: int = 3, until: int | None = None):
        super().__init__()
        self.obs_normalizer = EmpiricalNormalization(size, until=until)


def pooled(group, *models: Model) -> NormalizerPool:
    pool = NormalizerPool(group)
    for model in models:
        pool.replace_in(model)
    return pool


def batches(sizes=(64, 64, 32), size: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([1.0, 100.0, 1e-2])[:size]
    return [torch.randn(n, size, generator=generator) * scale + 5 * scale for n in sizes]


def learned(data: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return rsl_rl's own normalizer after learning from all data in one process."""
    stock = EmpiricalNormalization(data[0].shape[1])
    for batch in data:
        stock.update(batch)
    return stock.state_dict()


def test_ranks_learn_what_one_rank_learns_from_all_data():
    def on_rank(group):
        model = Model()
        pool = pooled(group, model)
        for batch in batches():
            model.obs_normalizer.update(batch.chunk(group.world_size)[group.rank])
            pool.pool()
        return model.obs_normalizer.state_dict()

    one = learned(batches())
    for state in FakeWorld(4).run(on_rank):
        assert list(state) == list(one)
        for name, value in one.items():
            torch.testing.assert_close(state[name], value, rtol=1e-5, atol=1e-6)


def test_all_normalizers_of_an_update_share_one_collective():
    def on_rank(group):
        models = Model(3), Model(2)
        pool = pooled(group, *models)
        for model in models:
            model.obs_normalizer.update(torch.ones(4, len(model.obs_normalizer.mean)))
        pool.pool()
        pool.pool()

    world = FakeWorld(2)
    world.run(on_rank)
    assert [item.op for item in world.trace] == ["all_reduce(sum)"]


@pytest.mark.parametrize(("until", "seen"), [(7, 8), (8, 8), (9, 16), (16, 16)])
def test_it_stops_learning_when_rsl_rls_does(until, seen):
    def on_rank(group):
        model = Model(until=until)
        pool = pooled(group, model)
        for _ in range(4):
            model.obs_normalizer.update(torch.randn(4, 3))
            pool.pool()
        model.eval()
        model.obs_normalizer.update(torch.randn(4, 3))
        return int(model.obs_normalizer.count), model.obs_normalizer.pending

    # Both ranks together have 8 rows at a time.
    assert FakeWorld(2).run(on_rank) == [(seen, None)] * 2


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_a_replaced_normalizer_keeps_its_state_and_its_methods():
    model = Model()
    model.obs_normalizer.update(batches()[0])
    before = copy.deepcopy(model.obs_normalizer)
    pooled(SingleProcess("cpu"), model)
    after = model.obs_normalizer
    assert type(after) is PooledNormalization
    assert all(torch.equal(after.state_dict()[k], v) for k, v in before.state_dict().items())
    x = torch.randn(5, 3)
    assert torch.equal(after(x), before(x))
    assert torch.equal(torch.jit.script(copy.deepcopy(after))(x), before(x))
    assert torch.equal(after.inverse(x), before.inverse(x))


def test_a_derived_class_is_not_changed():
    class Own(EmpiricalNormalization):
        pass

    model = Model()
    model.obs_normalizer = Own(3)
    pooled(SingleProcess("cpu"), model)
    assert type(model.obs_normalizer) is Own
