"""Networks of a user's own on several ranks: what would not learn as one is found, no more."""

from __future__ import annotations

import collections
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from messages import says
from torch import nn

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld
from rltrain.types import World
from rltrain_torch.backends import GlooBackend

ROWS, WIDTH = 6, 4


class Net(nn.Module):
    """A layer, and before it what a case does with its input."""

    def __init__(self, before=lambda net, x: x, **parts):
        super().__init__()
        self.before = before
        for name, part in parts.items():
            setattr(self, name, part)
        self.layer = nn.Linear(WIDTH, 3)

    def forward(self, x):
        return self.layer(self.before(self, x))


def through(part):
    return Net(lambda net, x: net.norm(x), norm=part)


def by_running_mean(net, x):
    """Use the mean so far, then update it: in this call the others' rows count for nothing."""
    centered = x - torch.as_tensor(net.mean)
    if net.training or net.always:
        net.mean = 0.9 * net.mean + 0.1 * x.mean().item()
    return centered


def of_the_last_training(net, x):
    if net.training:
        net.mean = x.mean(0)
        return x
    return x - net.mean


def trained_inside(net, x):
    with torch.enable_grad():
        net.scale.grad = None
        ((x * net.scale) ** 2).mean().backward()
    net.optimizer.step()
    return x * net.scale.detach()


def with_optimizer():
    net = Net(trained_inside, scale=nn.Parameter(torch.ones(WIDTH)))
    net.optimizer = torch.optim.SGD([net.scale], lr=0.1)
    return net


class ADistribution(Net):
    def forward(self, x):
        return torch.distributions.Normal(super().forward(x), 1.0)


MIXING = {
    "the batch's mean": lambda: Net(lambda net, x: x - x.mean(0)),
    "the batch's greatest": lambda: Net(lambda net, x: x / x.abs().max()),
    "BatchNorm1d": lambda: through(nn.BatchNorm1d(WIDTH)),
    "BatchNorm1d alone": lambda: through(nn.BatchNorm1d(WIDTH, track_running_stats=False)),
    "InstanceNorm1d of the columns": lambda: Net(
        lambda net, x: net.norm(x.t()).t(), norm=nn.InstanceNorm1d(WIDTH)
    ),
    "a distribution": lambda: ADistribution(lambda net, x: x - x.mean(0)),
    "the first row": lambda: Net(lambda net, x: x - x[:1]),
    "the last row": lambda: Net(lambda net, x: x - x[-1:]),
    "sums over rows": lambda: Net(lambda net, x: x.cumsum(0)),
    "softmax over rows": lambda: Net(lambda net, x: x.softmax(0)),
    "a tensor": lambda: Net(by_running_mean, mean=torch.zeros(()), always=False),
    "a number": lambda: Net(by_running_mean, mean=0.0, always=False),
    "an array": lambda: Net(by_running_mean, mean=np.float32(0), always=False),
    "updated by acting": lambda: Net(by_running_mean, mean=0.0, always=True),
    "used only to act": lambda: Net(of_the_last_training, mean=torch.zeros(WIDTH)),
    "used only to learn": lambda: Net(
        lambda net, x: by_running_mean(net, x) if net.training else x, mean=0.0, always=False
    ),
    "an optimizer of its own": with_optimizer,
    "inside of torch's": lambda: nn.Sequential(Net(lambda net, x: x - x.mean(0)), nn.ReLU()),
}


class Frozen(nn.BatchNorm1d):
    def train(self, mode=True):
        return super().train(False)


def of_the_last_frames(net, x):
    net.frames.append(x.detach())
    return sum(net.frames) / len(net.frames)


RNG = np.random.default_rng
ROW_BY_ROW = {
    "nothing special": Net,
    "dropout": lambda: through(nn.Dropout(0.5)),
    "torch's noise": lambda: Net(lambda net, x: x + torch.randn_like(x)),
    "numpy's noise": lambda: Net(lambda net, x: x + np.random.standard_normal()),
    "Python's noise": lambda: Net(lambda net, x: x + random.random()),
    "noise that nothing holds": lambda: Net(lambda net, x: x + RNG().standard_normal()),
    "noise of its own": lambda: Net(lambda net, x: x + net.noise.random(), noise=RNG()),
    "spectral norm": lambda: through(nn.utils.spectral_norm(nn.Linear(WIDTH, WIDTH))),
    "spectral norm as a parametrization": lambda: through(
        nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH))
    ),
    "weight norm": lambda: through(nn.utils.weight_norm(nn.Linear(WIDTH, WIDTH))),
    "float64": lambda: Net(lambda net, x: net.n(x.double()).float(), n=nn.Linear(4, 4).double()),
    "bfloat16": lambda: Net(
        lambda net, x: net.n(x.bfloat16()).float(), n=nn.Linear(4, 4).bfloat16()
    ),
    "LayerNorm": lambda: through(nn.LayerNorm(WIDTH)),
    "InstanceNorm1d of each row": lambda: Net(
        lambda net, x: net.norm(x.unsqueeze(1)).squeeze(1), norm=nn.InstanceNorm1d(1)
    ),
    "BatchNorm1d that is frozen": lambda: through(Frozen(WIDTH)),
    "the last frames": lambda: Net(of_the_last_frames, frames=collections.deque(maxlen=3)),
    "in place": lambda: Net(lambda net, x: x.clone().mul_(2)),
    "no copy can be made": lambda: Net(lambda net, x: x, lock=__import__("threading").Lock()),
}


def wrapped(group, net):
    watched = {}
    session = SimpleNamespace(
        group=group,
        world=World(),
        config=SimpleNamespace(library="rsl_rl"),
        batch_rows=8,
        watch=lambda role, fingerprints: watched.update({role: fingerprints}),
    )
    GlooBackend().rltrain_wrap_model(session, net, "actor")
    return watched["actor"]


def on_two_ranks(make, work):
    def of_rank(group):
        torch.manual_seed(0)
        net = make()
        fingerprints = wrapped(group, net)
        torch.manual_seed(group.rank)
        return work(group, net, fingerprints)

    return FakeWorld(2).run(of_rank)


def rollout_and_update(group, net, fingerprints):
    """Act as rl_games does, and learn."""
    net.eval()
    with torch.no_grad():
        net(torch.rand(ROWS, WIDTH))
    net.train()
    for _ in range(3):
        net(torch.rand(ROWS, WIDTH)).sum().backward()
    return fingerprints()


@pytest.mark.parametrize("make", MIXING.values(), ids=MIXING)
def test_what_depends_on_other_rows_is_refused_before_it_learns(make):
    with says(UsageError):
        on_two_ranks(make, rollout_and_update)


def test_what_begins_later_is_found_by_the_check():
    def work(group, net, fingerprints):
        rollout_and_update(group, net, fingerprints)
        net.before = lambda net, x: x - x.mean(0)
        fingerprints()

    with says(UsageError):
        on_two_ranks(Net, work)


def test_layers_of_batch_norm_are_named():
    with says(UsageError):
        on_two_ranks(MIXING["BatchNorm1d"], rollout_and_update)


@pytest.mark.parametrize("make", ROW_BY_ROW.values(), ids=ROW_BY_ROW)
def test_what_learns_as_one_is_not_refused(make):
    first, second = on_two_ranks(make, rollout_and_update)
    answers = {name: value for name, value in first.items() if "output" in name}
    assert set(answers.values()) == {True}
    assert answers == {name: value for name, value in second.items() if "output" in name}


def test_what_its_author_pools_over_ranks_is_not_refused():
    def pooled(net, x):
        total = x.sum(0)
        dist.all_reduce(total)
        return x - total / len(x)

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        group = SimpleNamespace(world_size=2, broadcast=lambda x: x, broadcast_object=dict)
        rollout_and_update(group, net := Net(pooled), wrapped(group, net))
    finally:
        dist.destroy_process_group()


def shifted(net, x):
    return x - net.mean


@pytest.mark.parametrize(
    "mean", [torch.ones(()), np.float32(1), 1.0], ids=["tensor", "array", "number"]
)
def test_state_that_only_one_rank_has_is_found(mean):
    """A library may update it beside the network's forward pass."""

    def work(group, net, fingerprints):
        rollout_and_update(group, net, fingerprints)
        net.mean = mean * group.rank
        return dict(fingerprints())

    first, second = on_two_ranks(lambda: Net(shifted, mean=mean * 0), work)
    assert first.pop("output for an equal input") is True
    assert second.pop("output for an equal input") is False
    assert first == second


def test_what_is_kept_for_each_environment_may_differ():
    def recurrent(net, x):
        net.state = tuple(0.5 * part + x for part in net.state)
        return net.state[0] + net.state[1]

    def work(group, net, fingerprints):
        net.state = (torch.randn(ROWS, WIDTH), torch.randn(2, ROWS, WIDTH)[0])
        return rollout_and_update(group, net, fingerprints)

    first, second = on_two_ranks(lambda: Net(recurrent, state=(0.0, 0.0)), work)
    assert first == second
    assert first["output for an equal input"] is True


def test_the_run_stays_as_it_is():
    """What is drawn, what the network keeps, and the batch are those of a run on one rank."""

    def work(group, net, fingerprints):
        torch.manual_seed(1)
        np.random.seed(1)
        random.seed(1)
        rollout_and_update(group, net, fingerprints)
        drawn = torch.rand(3).tolist(), np.random.rand(), random.random()
        return drawn, [x.tolist() for x in net.frames], net.state_dict()["n.bias"].tolist()

    def make():
        layer = nn.utils.spectral_norm(nn.Linear(WIDTH, WIDTH))
        return Net(
            lambda net, x: of_the_last_frames(net, net.drop(net.n(x.mul_(2))) + np.random.rand()),
            n=layer,
            drop=nn.Dropout(0.5),
            frames=collections.deque(maxlen=3),
        )

    torch.manual_seed(0)
    net = make()
    alone = work(SimpleNamespace(rank=0), net, dict)
    assert on_two_ranks(make, work) == [alone, alone]


def test_hooks_are_gone_when_the_network_has_learned():
    def work(group, net, fingerprints):
        rollout_and_update(group, net, fingerprints)
        return [len(part._forward_pre_hooks) for part in net.modules()]

    assert on_two_ranks(Net, work) == [[0, 0], [0, 0]]


def test_the_librarys_networks_are_left_alone():
    def work(group, net, fingerprints):
        assert not any(part._forward_pre_hooks for part in net.modules())
        assert set(fingerprints()) == set(net.state_dict())

    on_two_ranks(lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), work)


def made_in_the_first_call(net, x):
    if not hasattr(net, "late"):
        net.late = nn.Parameter(torch.ones(WIDTH))
    return x * net.late


def unfrozen_when_it_learns(net, x):
    net.late.requires_grad_(net.training)
    return x * net.late


@pytest.mark.parametrize(
    "make",
    [
        lambda: Net(made_in_the_first_call),
        lambda: Net(unfrozen_when_it_learns, late=nn.Parameter(torch.ones(WIDTH), False)),
    ],
    ids=["made", "unfrozen"],
)
def test_a_parameter_that_comes_later_is_named(make):
    with says(UsageError):
        on_two_ranks(make, rollout_and_update)
