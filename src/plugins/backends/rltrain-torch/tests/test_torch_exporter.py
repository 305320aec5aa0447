"""torch's policies as files. That they act as the policy: tests/integration/test_export.py."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from messages import says
from torch import nn

from rltrain.errors import UsageError
from rltrain.policy import PolicyModule
from rltrain.types import ArrayInfo
from rltrain_torch import exporter
from rltrain_torch.exported import METADATA
from rltrain_torch.exporter import TorchExporter

FACTS = {"task": "Point-v0", "inputs": "{}"}


class Recurrent(nn.Module):
    """Reads a vector, and has a state."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.memory = nn.GRUCell(3, 5)

    def forward(self, policy, hidden):
        hidden = self.memory(policy, hidden)
        return hidden[:, :2].clamp(-1, 1), hidden


@pytest.fixture
def module():
    return PolicyModule(
        function=Recurrent().eval(),
        inputs={"policy": ArrayInfo((3,))},
        states={"hidden": ArrayInfo((5,))},
        output=ArrayInfo((2,)),
    )


@pytest.mark.parametrize("kind", ["jit", pytest.param("pt2", marks=pytest.mark.slow)])
def test_a_file_of_torch_acts_as_the_policy_and_says_what_it_is(tmp_path, module, kind):
    path, inside = tmp_path / f"policy.{kind}", {METADATA: ""}
    assert TorchExporter().export(module, kind, path, FACTS) == {}
    run = TorchExporter().load(path, kind)
    for size in (1, 4):
        given = [np.full((size, n), 0.5, np.float32) for n in (3, 5)]
        wanted = module.function(*map(torch.from_numpy, given))
        for found, each in zip(run(given), wanted, strict=True):
            np.testing.assert_allclose(found, each.detach().numpy(), rtol=0, atol=1e-6)
    if kind == "jit":
        # As programs for robots call it.
        loaded = torch.jit.load(path, _extra_files=inside)
        assert loaded(torch.zeros(5, 3), torch.zeros(5, 5))[0].shape == (5, 2)
    else:
        torch.export.load(path, extra_files=inside)
    assert json.loads(inside[METADATA]) == FACTS


@pytest.mark.slow
def test_an_opset_that_torch_cannot_write_is_refused(tmp_path, module):
    with pytest.raises(UsageError, match=r"--opset 3: torch .* cannot write this policy with it"):
        TorchExporter().export(module, "onnx", tmp_path / "policy.onnx", FACTS, 3)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(exporter, "_ONNX", ("json", "no_onnx_here"))
    with says(UsageError):
        TorchExporter().check("onnx")
    TorchExporter().check("jit")
