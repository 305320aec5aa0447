"""Counting devices, and the cost of declaring the plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import python

from rltrain.errors import RltrainError
from rltrain.testing import make_config
from rltrain.types import World
from rltrain_torch.backends import GlooBackend
from rltrain_torch.devices import _DRIVER_FILES, about, count_cuda


def test_everything_that_is_declared_can_be_chosen():
    from rltrain.plugins.manager import RunPlugins
    from rltrain.specs import load_object
    from rltrain_torch.plugin import rltrain_provides

    for spec in rltrain_provides():
        if spec.kind == "launcher":
            assert callable(load_object(spec.factory)().launch)
        else:
            RunPlugins().choose(spec)


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
    with pytest.raises(RltrainError, match=r"Rank 0 cannot open cuda:1: .*--gpu-ids"):
        GlooBackend().rltrain_init_distributed(world, make_config())
