"""torch's policies as files: of any batch size, with states, with choices."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from rltrain.errors import UsageError
from rltrain.policy import PolicyModule
from rltrain.types import ArrayInfo
from rltrain_torch import exporter
from rltrain_torch.exported import METADATA
from rltrain_torch.exporter import TorchExporter

FACTS = {"task": "Point-v0", "inputs": "{}"}


class Recurrent(nn.Module):
    """Reads a vector and an image, has the states of two layers, and chooses one of three."""

    def __init__(self, kind):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(2, 3, 3, 2), nn.Flatten(), nn.Linear(18, 4))
        self.memory = getattr(nn, kind)(4 + 2, 5, 2)
        self.head = nn.Linear(5, 3)

    def forward(self, vector, image, *states):
        seen = self.encoder(image.permute(0, 3, 1, 2).float() / 255)
        before = [state.transpose(0, 1).contiguous() for state in states]
        given = before[0] if len(before) == 1 else tuple(before)
        out, after = self.memory(torch.cat([vector.float(), seen], -1).unsqueeze(0), given)
        after = after if isinstance(after, tuple) else (after,)
        return self.head(out[0]).argmax(-1), *(state.transpose(0, 1) for state in after)


def recurrent(kind="LSTM"):
    torch.manual_seed(0)
    names = ("hidden", "cell")[: 2 if kind == "LSTM" else 1]
    return PolicyModule(
        function=Recurrent(kind).eval(),
        inputs={"policy": ArrayInfo((2,), "float64"), "eye": ArrayInfo((8, 6, 2), "uint8")},
        states={name: ArrayInfo((2, 5)) for name in names},
        output=ArrayInfo((), "int64"),
    )


def plain():
    """A policy without states."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 2))

    class Function(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, policy):
            return (self.net(policy).clamp(-1, 1),)

    return PolicyModule(
        function=Function().eval(), inputs={"policy": ArrayInfo((3,))}, output=ArrayInfo((2,))
    )


def arrays(module, size):
    draw = np.random.default_rng(size)
    infos = [*module.inputs.values(), *module.states.values()]
    return [(draw.random((size, *info.shape)) * 3).astype(info.dtype) for info in infos]


def check(module, run):
    """Compare a file's function with the policy's on batches of one and four."""
    for size in (1, 4):
        given = arrays(module, size)
        with torch.no_grad():
            wanted = module.function(*map(torch.from_numpy, given))
        found = run(given)
        assert len(found) == len(wanted) == len(module.output_names)
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.numpy().dtype
            np.testing.assert_allclose(one, other.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("make", [plain, recurrent])
def test_torchscript_acts_as_the_policy(tmp_path, make):
    path, module = tmp_path / "policy.pt", make()
    assert TorchExporter().export(module, "jit", path, FACTS) == {}
    check(module, TorchExporter().load(path, "jit"))
    inside = {METADATA: ""}
    loaded = torch.jit.load(path, _extra_files=inside)
    assert json.loads(inside[METADATA]) == FACTS
    if not module.states:  # As programs for robots call it.
        assert loaded(torch.zeros(5, 3)).shape == (5, 2)


@pytest.mark.slow
@pytest.mark.parametrize("make", [plain, recurrent])
def test_torch_export_acts_as_the_policy(tmp_path, make):
    path, module = tmp_path / "policy.pt2", make()
    assert TorchExporter().export(module, "pt2", path, FACTS) == {}
    check(module, TorchExporter().load(path, "pt2"))
    inside = {METADATA: ""}
    torch.export.load(path, extra_files=inside)
    assert json.loads(inside[METADATA]) == FACTS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "opset"),
    [(plain, None), (plain, 21), (lambda: recurrent("GRU"), None), (recurrent, None)],
    ids=["plain", "plain, opset 21", "GRU", "LSTM"],
)
def test_onnx_acts_as_the_policy(tmp_path, make, opset):
    import onnx

    path, module = tmp_path / "policy.onnx", make()
    about = TorchExporter().export(module, "onnx", path, FACTS, opset)
    assert about["opset"] == (opset or exporter.OPSET)
    check(module, TorchExporter().load(path, "onnx"))
    model = onnx.load(path)
    assert {each.key: each.value for each in model.metadata_props} == FACTS
    assert [each.name for each in model.graph.input] == module.input_names
    assert [each.name for each in model.graph.output] == module.output_names
    for value in model.graph.input:
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"


@pytest.mark.slow
def test_an_opset_that_torch_cannot_write_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"--opset 3: torch .* cannot write this policy with it"):
        TorchExporter().export(plain(), "onnx", tmp_path / "policy.onnx", FACTS, 3)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(exporter, "_ONNX", ("json", "no_onnx_here"))
    with pytest.raises(UsageError, match=r"no_onnx_here.*pip install 'rltrain-torch\[export\]'"):
        TorchExporter().check("onnx")
    TorchExporter().check("jit")
