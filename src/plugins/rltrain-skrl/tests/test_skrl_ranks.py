"""Several ranks: pooled statistics, and a training on two real processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rltrain_skrl import bootstrap
from rltrain_skrl.torch.scaler import PooledScaler

bootstrap.import_skrl()

from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402


class Halves:
    """A group of two ranks whose reductions are handed to it, one after the other."""

    world_size = 2

    def __init__(self) -> None:
        self.parts: list[torch.Tensor] = []
        self.total: torch.Tensor | None = None

    def all_reduce(self, x, op):
        assert op == "sum"
        self.parts.append(x)
        return x if self.total is None else self.total


def test_pooled_statistics_are_those_of_all_data():
    torch.manual_seed(0)
    alone = RunningStandardScaler(3, device="cpu")
    pooled = PooledScaler(3, device="cpu", group=Halves())
    for offset in (1000.0, 1000.5):
        data = offset + torch.randn(40, 10, 3) * torch.tensor([1.0, 0.1, 5.0])
        alone(data, train=True)
        _train_on_halves(pooled, data)
    assert torch.allclose(pooled.running_mean, alone.running_mean, rtol=1e-6)
    # The variance within a half has one degree of freedom less: 1 in 400.
    assert torch.allclose(pooled.running_variance, alone.running_variance, rtol=4e-3)
    assert pooled.current_count == alone.current_count
    assert pooled.state_dict().keys() == alone.state_dict().keys()
    x = torch.full((2, 3), 1001.0)
    assert torch.allclose(pooled(x), alone(x), atol=2e-2)


def _train_on_halves(scaler, data):
    """Update with both halves of the data, as two ranks would."""
    before = {name: value.clone() for name, value in scaler.state_dict().items()}
    group = scaler._group = Halves()
    for half in data.chunk(2):
        scaler.load_state_dict(before)
        scaler(half, train=True)
    scaler.load_state_dict(before)
    group.total = group.parts[0] + group.parts[1]
    scaler(data[:1], train=True)


def test_without_training_nothing_is_reduced():
    group = Halves()
    scaler = PooledScaler(3, device="cpu", group=group)
    scaler(torch.ones(4, 3))
    scaler(torch.ones(4, 3), inverse=True)
    assert scaler(None, train=True) is None
    assert not group.parts


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_two_processes_stay_equal_with_one_gradient_collective_a_mini_batch():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("skrl_gloo_rank.py"))],
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        outputs = [rank.communicate(timeout=150) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    first, second = (json.loads(out.splitlines()[-1]) for out, _ in outputs)
    assert first["states"] == second["states"]
    assert first["learning rate"] == second["learning rate"]
    assert first["first position"] != second["first position"]
    assert len(first["saved"]) == 3
    assert second["saved"] == []
    iterations, epochs, batches = 3, 2, 2
    scalers = {"5": iterations * batches, "3": iterations * 2}  # Of two and of one component.
    gradients = {str(first["parameters"]): iterations * epochs * batches}
    divergences = {"1": iterations * epochs}
    assert first["sizes"] == second["sizes"] == gradients | scalers | divergences
