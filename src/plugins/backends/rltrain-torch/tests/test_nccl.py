"""Several ranks on one GPU with NCCL: which versions, and what is said about others."""

from __future__ import annotations

import pytest
import torch

from rltrain.config import Placement
from rltrain.types import World
from rltrain_torch import devices as nccl

NEW, OLD = (2, 30, 7), (2, 28, 9)


@pytest.fixture
def loaded(monkeypatch):
    """Return a function that sets which NCCL torch has."""
    monkeypatch.delenv(nccl.ALLOWS, raising=False)
    monkeypatch.delenv(nccl.MULTICAST, raising=False)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    return lambda version: monkeypatch.setattr(torch.cuda.nccl, "version", lambda: version)


def test_a_new_nccl_can(loaded):
    loaded(NEW)
    assert nccl.why_not_shared() is None


def test_an_old_one_cannot_and_the_wheel_is_named(loaded):
    loaded(OLD)
    reason = nccl.why_not_shared()
    assert "torch has NCCL 2.28.9, and 2.30 is the first that can." in reason
    assert "pip install --no-deps 'nvidia-nccl-cu12>=2.30'" in reason


@pytest.mark.parametrize(("name", "value"), [(nccl.ALLOWS, "0"), (nccl.MULTICAST, "1")])
def test_variables_that_forbid_it_are_named(loaded, monkeypatch, name, value):
    loaded(NEW)
    monkeypatch.setenv(name, value)
    assert f"{name}={value}" in nccl.why_not_shared()


@pytest.mark.parametrize(
    ("gpus", "ranks", "given", "then"),
    [
        (None, 2, {}, {}),
        ((0, 1), 2, {}, {}),
        ((1,), 2, {}, {nccl.ALLOWS: "1"}),
        ((1,), 2, {nccl.ALLOWS: "0"}, {nccl.ALLOWS: "0"}),  # What the user set is left.
    ],
)
def test_only_ranks_that_share_a_gpu_are_allowed_to(gpus, ranks, given, then):
    placement = Placement(backend="nccl", device_kind="cuda", gpu_ids=gpus)
    nccl.let_share(given, World(local_world_size=ranks, world_size=ranks), placement)
    assert given == then
