"""Model wrapping: rank 0's state everywhere, and registered with the divergence check."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from rltrain.testing import FakeWorld
from rltrain.types import World
from rltrain_torch.backends import GlooBackend


class Mixed(torch.nn.Module):
    """Parameters and buffers of several dtypes and shapes."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2, 3), float(value)).t())
        self.scale = torch.nn.Parameter(torch.tensor(float(value)))
        self.low = torch.nn.Parameter(torch.full((2,), float(value), dtype=torch.bfloat16))
        self.empty = torch.nn.Parameter(torch.zeros(0))
        self.frozen = torch.nn.Parameter(torch.full((2,), float(value)), requires_grad=False)
        self.register_buffer("mean", torch.full((3,), float(value), dtype=torch.float64))
        self.register_buffer("count", torch.tensor(value))
        self.register_buffer("mask", torch.tensor([value > 1, True]))
        self.register_buffer("hidden", torch.full((2,), float(value)), persistent=False)
        self.register_buffer("nothing", None)
        self.norm = torch.nn.BatchNorm1d(2)


def session_of(group):
    watched = {}
    return SimpleNamespace(
        group=group,
        world=World(),
        config=SimpleNamespace(library="mine"),
        batch_rows=8,
        watched=watched,
        watch=lambda role, fingerprints: watched.update({role: fingerprints}),
    )


def wrap(group, model):
    session = session_of(group)
    assert GlooBackend().rltrain_wrap_model(session, model, "policy") is model
    return session.watched["policy"]


def test_every_rank_has_rank_0s_parameters_and_buffers():
    def work(group):
        model = Mixed(group.rank + 1)
        wrap(group, model)
        return dict(model.named_parameters()) | dict(model.named_buffers())

    reference = Mixed(1)
    expected = dict(reference.named_parameters()) | dict(reference.named_buffers())
    for state in FakeWorld(2).run(work):
        assert state.keys() == expected.keys()
        for name, tensor in state.items():
            assert torch.equal(tensor, expected[name]), name
            assert tensor.dtype == expected[name].dtype
            assert tensor.requires_grad == expected[name].requires_grad


def test_parameters_remain_the_same_objects_for_the_optimizer():
    def work(group):
        model = Mixed(group.rank)
        before = {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()}
        wrap(group, model)
        return before == {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()}

    assert FakeWorld(2).run(work) == [True, True]


def test_tied_parameters_stay_tied():
    def work(group):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        model[1].weight = model[0].weight
        wrap(group, model)
        return model[1].weight is model[0].weight, model[0].weight.tolist()

    first, second = FakeWorld(2).run(work)
    assert first == second
    assert first[0]
