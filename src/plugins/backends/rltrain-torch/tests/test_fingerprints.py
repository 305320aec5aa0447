"""What ranks compare, and that a wrapped model is rank 0's everywhere."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from rltrain.testing import FakeWorld
from rltrain.types import World
from rltrain_torch.backends import GlooBackend
from rltrain_torch.optimizers import device_checksum, fingerprints, watch_optimizer

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8]


def host(tensor):
    return fingerprints([("x", tensor)])["x"]


def device(tensor):
    return int(device_checksum(tensor))


@pytest.fixture(params=[host, device])
def checksum(request):
    return request.param


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_changed_bit_is_seen(checksum, dtype):
    generator = torch.Generator().manual_seed(0)
    before = torch.randint(1, 100, (37,), generator=generator).to(dtype)
    seen = {checksum(before)}
    for place in (0, 17, 36):
        for bit in range(8 * before.element_size()):
            changed = before.clone()
            byte = changed.view(torch.uint8)[place * before.element_size() + bit // 8 :][:1]
            byte.bitwise_xor_(1 << bit % 8)
            seen.add(checksum(changed))
    assert len(seen) == 1 + 3 * 8 * before.element_size()
    assert checksum(before.clone()) == checksum(before)


def test_order_length_and_opposite_changes_are_seen(checksum):
    x = torch.arange(6.0)
    others = [x.flip(0), x.roll(1), x[:5], torch.cat([x, torch.zeros(1)]), -x, torch.zeros(6)]
    # Changes that a plain sum of the bits, or one weighted by position, would miss.
    for change in ([1, -1, 0, 0, 0, 0], [1, -2, 1, 0, 0, 0], [0, 1, -1, -1, 1, 0]):
        others.append((x.view(torch.int32) + torch.tensor(change)).to(torch.int32).view(x.dtype))
    assert len({checksum(each) for each in (x, *others)}) == 1 + len(others)


@pytest.mark.parametrize(
    "tensor",
    [torch.tensor(3.0), torch.zeros(0), torch.tensor([True, False]), torch.ones(2, 3).t()],
    ids=["scalar", "empty", "bool", "strided"],
)
def test_tensors_of_every_kind_have_a_checksum(checksum, tensor):
    assert isinstance(checksum(tensor), int)
    assert checksum(tensor) == checksum(tensor.clone().contiguous())


def test_nan_is_compared_by_its_bits(checksum):
    assert checksum(torch.tensor([torch.nan])) == checksum(torch.tensor([torch.nan]))
    assert checksum(torch.tensor([0.0])) != checksum(torch.tensor([-0.0]))


@pytest.fixture
def watched():
    """Return an optimizer of two groups that has made a step, and its fingerprints."""
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = torch.optim.Adam([{"params": [x], "lr": 0.1} for x in parameters])
    sum(x.sum() for x in parameters).backward()
    optimizer.step()
    seen = {}
    watch_optimizer(
        SimpleNamespace(watch=lambda role, function: seen.update(one=function)), optimizer
    )
    return optimizer, lambda: dict(seen["one"]())


@pytest.mark.parametrize(("index", "name"), [(0, "learning rate"), (1, "learning rate of group 1")])
def test_the_rate_of_each_group_is_seen(watched, index, name):
    optimizer, fingerprints = watched
    before = fingerprints()
    optimizer.param_groups[index]["lr"] = 0.2
    assert {key for key, value in fingerprints().items() if value != before[key]} == {name}


@pytest.mark.parametrize("index", [0, 1])
def test_the_moments_of_each_parameter_are_seen(watched, index):
    optimizer, fingerprints = watched
    before = fingerprints()
    parameter = optimizer.param_groups[index]["params"][0]
    optimizer.state[parameter]["exp_avg"][1] += 1
    changed = {key for key, value in fingerprints().items() if value != before[key]}
    assert changed == {f"exp_avg of parameter {index}"}


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


def wrap(group, model):
    watched = {}
    session = SimpleNamespace(
        group=group,
        world=World(),
        config=SimpleNamespace(library="mine"),
        batch_rows=8,
        watch=lambda role, fingerprints: watched.update({role: fingerprints}),
    )
    assert GlooBackend().rltrain_wrap_model(session, model, "policy") is model
    return watched["policy"]


def test_every_rank_has_rank_0s_parameters_and_buffers_in_the_optimizers_objects():
    def places(model):
        return {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()}

    def work(group):
        model = Mixed(group.rank + 1)
        before = places(model)
        wrap(group, model)
        assert places(model) == before
        return dict(model.named_parameters()) | dict(model.named_buffers())

    reference = Mixed(1)
    expected = dict(reference.named_parameters()) | dict(reference.named_buffers())
    for state in FakeWorld(2).run(work):
        assert state.keys() == expected.keys()
        for name, tensor in state.items():
            assert torch.equal(tensor, expected[name]), name
            assert tensor.dtype == expected[name].dtype
            assert tensor.requires_grad == expected[name].requires_grad


def test_tied_parameters_stay_tied():
    def work(group):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        model[1].weight = model[0].weight
        wrap(group, model)
        return model[1].weight is model[0].weight, model[0].weight.tolist()

    first, second = FakeWorld(2).run(work)
    assert first == second
    assert first[0]
