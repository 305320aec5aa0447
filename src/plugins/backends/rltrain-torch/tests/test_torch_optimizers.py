"""What the divergence check sees of an optimizer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from rltrain_torch.optimizers import watch_optimizer


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
