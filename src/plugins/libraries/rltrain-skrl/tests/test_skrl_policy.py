"""Loaded policies act as the training agents act, bit for bit, and as what is exported of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skrl_fakes import FakeSession
from skrl_policies import CASES, SIZE, Case, Parted, acted, load, reference, trained

from rltrain.errors import UsageError
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.torch.runner import SessionRunner
from rltrain_torch.exporter import TorchExporter

OFTEN = ("ppo", "ppo multi_discrete", "ppo states", "ppo scaled beside", "sac", "dqn")
every_case = pytest.mark.parametrize(
    "name", [pytest.param(x, marks=() if x in OFTEN else pytest.mark.slow) for x in CASES]
)


@every_case
@pytest.mark.parametrize("deterministic", [True, False], ids=["mode", "sampled"])
def test_it_acts_as_the_training_agent(name, deterministic):
    policy, session = load(CASES[name], trained(name)[2])
    assert policy.groups == CASES[name].groups
    actions = acted(policy, session.env.unwrapped, deterministic)
    expected = reference(name, deterministic)
    for ours, theirs in zip(actions, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
    assert len({tuple(x.flatten().tolist()) for x in actions}) > (1 if "image" in name else 0)


@pytest.mark.parametrize("name", ["ppo", "sac", "ppo multi_discrete"])
def test_samples_differ_from_the_mode(name):
    policy, session = load(CASES[name], trained(name)[2], size=64)
    observations, _ = session.env.reset()
    sampled = [policy.act(observations, deterministic=False) for _ in range(2)]
    assert not torch.equal(*sampled)
    assert not torch.equal(sampled[0], policy.act(observations))


@every_case
def test_its_module_acts_as_it_does(name):
    policy, session = load(CASES[name], trained(name)[2])
    observations, _ = session.env.reset()
    module = policy.module()
    arrays = in_groups(observations, module)
    chosen, (exported,) = policy.act(observations), module.function(*arrays)
    assert torch.allclose(chosen, exported, atol=1e-6)
    assert (module.output.shape, module.output.dtype) == (chosen.shape[1:], str(chosen.dtype)[6:])
    assert list(module.inputs) == list(policy.groups)
    for array, info in zip(arrays, module.inputs.values(), strict=True):
        assert (info.shape, info.dtype) == (array.shape[1:], str(array.dtype)[6:])
    for other in (1, 2 * SIZE):
        rows = [array.repeat(2, *[1] * (array.ndim - 1))[:other] for array in arrays]
        assert torch.allclose(module.function(*rows)[0][:1], chosen[:1], atol=1e-6)


def in_groups(observations, module):
    return [
        observations[name] if isinstance(observations, dict) else observations
        for name in module.inputs
    ]


def test_a_module_has_parameters_of_its_own():
    policy, session = load(CASES["ppo"], trained("ppo")[2])
    observations, _ = session.env.reset()
    module = policy.module().function
    before = policy.act(observations)
    assert not any(x.requires_grad for x in module.parameters())
    for tensor in [*module.parameters(), *module.buffers()]:
        tensor.fill_(7.0)
    assert torch.equal(policy.act(observations), before)
    assert not torch.equal(module(observations)[0], before)


def test_what_a_module_says_of_normalization_and_actions():
    policy, session = load(CASES["ppo scaled beside"], trained("ppo scaled beside")[2])
    module = policy.module()
    observations, _ = session.env.reset()
    assert module.actions == {"low": [-1.0], "high": [1.0]}
    assert set(module.normalization) == {"eye", "policy"}
    actor = policy._actor
    flat, states = actor._flat(observations)
    scaled = actor.inputs(flat, states)["observations"]
    start = 0
    for name in ("eye", "policy"):  # skrl flattens them in this order.
        values = {key: torch.tensor(value) for key, value in module.normalization[name].items()}
        ours = ((observations[name].float() - values["mean"]) / values["std"]).flatten(1)
        ours = ours.clamp(-values["clip"], values["clip"])
        assert torch.allclose(ours, scaled[:, start : start + ours.shape[1]], atol=1e-5)
        start += ours.shape[1]
    assert start == scaled.shape[1]
    discrete = load(CASES["dqn"], trained("dqn")[2])[0].module()
    assert (discrete.actions, discrete.normalization) == ({}, {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "format"),
    [
        *((name, "onnx") for name in ("rpo", "sac", "ppo multi_discrete", "ppo scaled beside")),
        *((name, format) for name in ("ppo shared", "ppo states") for format in ("jit", "pt2")),
    ],
)
def test_an_exported_file_acts_as_it_does(name, format, tmp_path):
    pytest.importorskip("onnxruntime")
    policy, session = load(CASES[name], trained(name)[2], size=9)
    observations, _ = session.env.reset()
    module, path = policy.module(), tmp_path / f"policy.{format}"
    exporter = TorchExporter()
    exporter.export(module, format, path, {})
    run = exporter.load(path, format)
    for rows in (9, 1, 4):
        arrays = [array[:rows].numpy() for array in in_groups(observations, module)]
        assert np.allclose(run(arrays)[0], policy.act(observations)[:rows], atol=1e-6)
    if format == "onnx":
        import onnx

        nodes = {node.op_type for node in onnx.load(path).graph.node}
        assert not any(node.startswith("Random") for node in nodes), "RPO's noise is left out"


def test_a_group_with_parts_is_played_but_not_exported():
    inputs = 'concatenate([OBSERVATIONS["place"], OBSERVATIONS["time"]])'
    options = {f"models.{role}.network.0.input": inputs for role in ("policy", "value")}
    case = Case(env=Parted, options=options)
    session = FakeSession(case.make_env(8), case.agent(), max_iterations=1)
    with bootstrap.configured(session.world):
        SessionRunner(session).train()
    path = session.run_folder.path / "checkpoints" / session.saved[-1][0]
    policy, playing = load(case, path)
    assert policy.act(playing.env.reset()[0]).shape == (SIZE, 1)
    with pytest.raises(UsageError, match=r"observation group policy is not an array"):
        policy.module()
