"""Devices: how many there are, and several ranks on one GPU with NCCL."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import python
from messages import check_said, says

from rltrain.config import Placement
from rltrain.errors import RltrainError
from rltrain.testing import make_config
from rltrain.types import World
from rltrain_torch import devices as nccl
from rltrain_torch.backends import GlooBackend
from rltrain_torch.devices import _DRIVER_FILES, about, count_cuda


def test_hidden_gpus_do_not_count():
    code = "from rltrain_torch.devices import count_cuda; print(count_cuda())"
    assert python(code, CUDA_VISIBLE_DEVICES="").stdout.strip() == "0"


@pytest.mark.skipif(
    any(Path(name).exists() for name in _DRIVER_FILES), reason="there is a GPU's driver"
)
def test_without_a_driver_there_are_no_gpus():
    assert count_cuda() == 0


def test_torch_reports_what_it_was_built_for():
    described = about()
    assert described["version"] == torch.__version__
    assert (described["built for"] == "the CPU only") is not torch.backends.cuda.is_built()
    assert "gloo" in described["has"]
    assert ("NCCL" in described) is torch.distributed.is_nccl_available()


def test_a_gpu_whose_memory_others_have_taken_is_named(monkeypatch):
    def full(device):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch.cuda, "set_device", full)
    world = World(device="cuda:1")
    with says(RltrainError):
        GlooBackend().rltrain_init_distributed(world, make_config())


@pytest.fixture
def loaded(monkeypatch):
    """Return a function that sets which NCCL torch has."""
    monkeypatch.delenv(nccl.ALLOWS, raising=False)
    monkeypatch.delenv(nccl.MULTICAST, raising=False)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    return lambda version: monkeypatch.setattr(torch.cuda.nccl, "version", lambda: version)


def test_a_new_nccl_can_and_for_an_old_one_the_wheel_is_named(loaded):
    loaded((2, 30, 7))
    assert nccl.why_not_shared() is None
    loaded((2, 28, 9))
    check_said(nccl.why_not_shared())


@pytest.mark.parametrize(("name", "value"), [(nccl.ALLOWS, "0"), (nccl.MULTICAST, "1")])
def test_variables_that_forbid_it_are_named(loaded, monkeypatch, name, value):
    loaded((2, 30, 7))
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
