"""Loaded policies choose what the training agents do; what they take, refuse and leave alone."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import os
import random
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from messages import check_said, says
from skrl_fakes import Corridor, FakeSession
from skrl_policies import (
    CASES,
    NETWORK,
    SIZE,
    Case,
    FromZero,
    Parted,
    in_groups,
    most_likely,
    without_exploration,
)

from rltrain.errors import UsageError
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.library import SkrlLibrary
from rltrain_skrl.run.torch.env import SkrlEnv
from rltrain_skrl.run.torch.runner import SessionRunner
from rltrain_torch.exporter import TorchExporter

skrl = bootstrap.import_skrl()

from skrl.utils.runner.torch import Runner  # noqa: E402


def train(case: Case) -> Any:
    """Return a session and its agent after two iterations, and the checkpoint."""
    session = FakeSession(case.make_env(8), case.agent(), max_iterations=2)
    with bootstrap.configured(session.world):
        runner = SessionRunner(session)
        runner.train()
    saved, _ = session.saved[-1]
    path = session.run_folder.path / "checkpoints" / saved
    return session, without_exploration(runner.agent), path


@functools.cache
def trained(name: str) -> Any:
    """Train a case, once."""
    return train(CASES[name])


def load(case: Case, checkpoint: Path, agent: Any = None, size: int = SIZE, **options: Any) -> Any:
    """Return a policy and its session."""
    options |= {"checkpoint": str(checkpoint), "num_envs": size}
    session = FakeSession(case.make_env(size), agent or case.agent(), **options)
    return SkrlLibrary().rltrain_load_policy(session), session


def chosen_by(agent, case, policy, observations):
    """Return the task's actions that an agent of training chooses without chance."""
    flat, states = policy._actor._flat(observations)
    if isinstance(observations, dict) and states is None:  # Only the critic reads them.
        states = observations.get("critic")
    with torch.no_grad():
        actions, outputs = agent.act(flat, states, timestep=99, timesteps=99)
    return policy._actor._native(torch.as_tensor(most_likely(case, actions, outputs)))


OFTEN = ("ppo", "ppo multi_discrete", "ppo states", "ppo scaled beside", "sac", "dqn")


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=() if x in OFTEN else pytest.mark.slow) for x in CASES]
)
def test_it_and_its_module_choose_what_the_training_agent_does(name):
    session, agent, path = trained(name)
    policy, playing = load(CASES[name], path)
    assert policy.groups == CASES[name].groups
    observations, _ = playing.env.reset()
    with bootstrap.configured(session.world):
        expected = chosen_by(agent, CASES[name], policy, observations)
    chosen, module = policy.act(observations), policy.module()
    assert chosen.dtype == expected.dtype
    assert torch.equal(chosen, expected)
    arrays = in_groups(observations, module)
    assert torch.allclose(chosen, module.function(*arrays)[0], atol=1e-6)
    assert (module.output.shape, module.output.dtype) == (chosen.shape[1:], str(chosen.dtype)[6:])
    assert list(module.inputs) == list(policy.groups)
    for array, info in zip(arrays, module.inputs.values(), strict=True):
        assert (info.shape, info.dtype) == (array.shape[1:], str(array.dtype)[6:])
    for other in (1, 2 * SIZE):
        rows = [array.repeat(2, *[1] * (array.ndim - 1))[:other] for array in arrays]
        assert torch.allclose(module.function(*rows)[0][:1], chosen[:1], atol=1e-6)


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
    _, _, path = train(case)
    policy, playing = load(case, path)
    assert policy.act(playing.env.reset()[0]).shape == (SIZE, 1)
    with says(UsageError):
        policy.module()


# What loading leaves alone


@pytest.mark.parametrize("name", ["ppo", "sac", "ppo scaled beside"])
def test_acting_changes_nothing_that_was_learned(name):
    policy, session = load(CASES[name], trained(name)[2])
    state = {k: copy.deepcopy(part.state_dict()) for k, part in policy._actor.parts.items()}
    for _ in range(2):
        policy.act(session.env.reset()[0], deterministic=False)
    for part, before in state.items():
        for key, tensor in policy._actor.parts[part].state_dict().items():
            assert torch.equal(tensor, before[key]), (part, key)
    assert not any(model.training for model in policy._actor.agent.models.values())


def test_what_only_training_needs_need_not_fit():
    changes = {"agent.rollouts": 10**6, "agent.mini_batches": 10**7}
    case = Case(options=changes)
    policy, session = load(case, trained("ppo")[2], size=1)
    assert policy.act(session.env.reset()[0]).shape == (1, 1)
    replay = Case("sac", options={"memory.memory_size": 10**9, "agent.batch_size": 10**9})
    policy, _ = load(replay, trained("sac")[2], size=1)
    agent = policy._actor.agent
    assert agent.memory.memory_size == agent.memory.num_envs == 1
    assert set(agent.models) == {"policy"}
    assert not hasattr(agent, "critic_optimizer")


def test_loading_again_and_again_leaves_nothing():
    case, path = CASES["ppo states"], trained("ppo states")[2]
    random.seed(1)
    np.random.seed(1)
    sampled = random.getstate(), np.random.get_state()[1].tolist()
    environ, own = dict(os.environ), skrl.config.torch
    models = []
    for _ in range(2):
        policy, session = load(case, path)
        policy.module()
        policy.act(session.env.reset()[0], deterministic=False)
        models += [weakref.ref(policy._actor.model), weakref.ref(type(policy._actor.model))]
    del policy, session
    gc.collect()
    assert [model() for model in models] == [None] * 4
    assert (random.getstate(), np.random.get_state()[1].tolist()) == sampled
    assert (dict(os.environ), skrl.config.torch) == (environ, own)


def test_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent = CASES["ppo"].agent()
    agent["agent"]["experiment"] = {"checkpoint_interval": 1, "write_interval": 1}
    policy, session = load(CASES["ppo"], trained("ppo")[2], agent)
    policy.act(session.env.reset()[0])
    assert not list(tmp_path.iterdir())
    assert not list(session.run_folder.path.iterdir())


# Files of skrl's own scripts


def native(tmp_path, algorithm, action="continuous", **models):
    """Return skrl's own agent, trained by its own Runner, with its checkpoint and options."""
    case = Case(algorithm, action, FromZero if action == "discrete" else Corridor)
    options = case.agent()
    options["models"] |= models
    options["seed"] = 1
    options["memory"].pop("save_replay_buffer", None)
    options["agent"]["experiment"] = {
        "directory": str(tmp_path),
        "experiment_name": "own",
        "write_interval": 0,
        "checkpoint_interval": 4,
    }
    options["trainer"] |= {"timesteps": 8, "headless": True, "disable_progressbar": True}
    options["trainer"]["close_environment_at_exit"] = False
    env = case.make_env(4)
    env.reset(seed=1)
    with bootstrap.configured(FakeSession(env, options).world):
        runner = Runner(SkrlEnv(env, "cpu", "episode"), copy.deepcopy(options))
        runner.run("train")
    return case, runner.agent, tmp_path / "own/checkpoints/agent_8.pt", options


@pytest.mark.parametrize(
    ("algorithm", "action", "separate"),
    [
        ("ppo", "continuous", True),
        ("ppo", "multi_discrete", False),
        ("sac", "continuous", True),
        ("ddqn", "discrete", True),
    ],
)
def test_checkpoints_of_skrls_own_runner_load(tmp_path, algorithm, action, separate):
    case, agent, path, options = native(tmp_path, algorithm, action, separate=separate)
    policy, session = load(case, path, options)
    observations, _ = session.env.reset()
    expected = chosen_by(without_exploration(agent), case, policy, observations)
    assert torch.equal(policy.act(observations), expected)


def test_checkpoints_and_options_of_skrl_1_load(tmp_path):
    """skrl 1 calls observations and their preprocessor states; so do files of Isaac Lab 2."""
    case, agent, path, options = native(tmp_path, "ppo")
    saved = torch.load(path, weights_only=True)
    saved["state_preprocessor"] = saved.pop("observation_preprocessor")
    torch.save(saved, path)
    for role in ("policy", "value"):
        options["models"][role]["network"][0]["input"] = "STATES"
    del options["agent"]["observation_preprocessor"]
    options["agent"]["lambda"] = options["agent"].pop("gae_lambda")
    policy, session = load(case, path, options)
    observations, _ = session.env.reset()
    assert torch.equal(policy.act(observations), chosen_by(agent, case, policy, observations))


# What is refused


def refusal(case, path, **options):
    with pytest.raises(UsageError) as caught:
        load(case, path, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            Case(options={f"{NETWORK}.layers": [9]}),
            r"does not fit this run \(RuntimeError:.*net_container\.0\.weight",
        ),
        (
            Case("sac"),
            r"does not fit SAC with these options: it has val.* lacks critic_1, critic_2, "
            r"target_critic_1, target_critic_2\. Give the --alg",
        ),
        (
            CASES["ppo bare"],
            r"does not fit PPO with these options: it has observation_preprocessor\. Give",
        ),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_named(case, told):
    path = trained("ppo")[2]
    assert re.match(f"--checkpoint {path}: {told}", refusal(case, path))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, r"it cannot be read as a checkpoint \(FileNotFoundError"),
        ({"model": {}, "epoch": 3}, "does not fit PPO.*it has epoch, model and lacks observation_"),
        (b"torn", "it cannot be read as a checkpoint"),
        (b"\x80\x04N.", r"written by skrl's agents for jax.*Add --framework jax\."),
    ],
)
def test_a_file_that_is_no_checkpoint_of_skrl_is_named(content, told, tmp_path):
    path = tmp_path / "other.pth"
    if isinstance(content, dict):
        torch.save(content, path)
    elif content:
        path.write_bytes(content)
    assert re.match(f"--checkpoint {path}: .*{told}", refusal(CASES["ppo"], path))


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    path = tmp_path / "agent_8.pt"
    torch.save({**torch.load(trained("ppo")[2], weights_only=True), "more": Path("x")}, path)
    check_said(refusal(CASES["ppo"], path))
    assert "has more" in refusal(CASES["ppo"], path, trust=True)


@pytest.mark.parametrize(
    ("name", "told"),
    [("TRPO", "agent.agent.class=TRPO: of skrl's agents"), ("DQN", "has no q_network, with which")],
)
def test_agents_that_are_not_adapted_are_named(name, told):
    agent = CASES["ppo"].agent()
    agent["agent"]["class"] = name
    assert told in refusal(CASES["ppo"], trained("ppo")[2], agent=agent)


# What it relies on in the installed skrl


def test_what_skrls_runner_does_besides_building():
    source = inspect.getsource(Runner.__init__)
    steps = ("_check_cfg_compatibility(", "set_seed(", "_generate_models(", "_generate_agent(")
    places = [source.index(step) for step in steps]
    assert places == sorted(places)
    read = inspect.getsource(Runner._generate_models) + inspect.getsource(Runner._generate_agent)
    names = ("device", "num_envs", "observation_space", "state_space", "action_space")
    assert all(f"env.{name}" in read for name in names)


def test_a_shared_model_keeps_an_output_for_the_value():
    policy, session = load(CASES["ppo shared"], trained("ppo shared")[2])
    observations, _ = session.env.reset()
    model = policy._actor.model
    policy.act(observations)
    assert model._shared_output is None
    model.compute(policy._actor.inputs(observations, None), role="policy")
    assert model._shared_output is not None
