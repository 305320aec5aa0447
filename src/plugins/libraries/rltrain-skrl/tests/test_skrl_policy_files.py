"""What loading a policy takes and refuses, what it leaves alone, and what it relies on in skrl."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import random
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from skrl_fakes import Corridor, FakeSession
from skrl_policies import (
    CASES,
    NETWORK,
    Case,
    FromZero,
    acted,
    exploring,
    load,
    most_likely,
    trained,
)

from rltrain.errors import UsageError
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.torch.env import SkrlEnv

skrl = bootstrap.import_skrl()

from skrl.utils.runner.torch import Runner  # noqa: E402

# What loading leaves alone


@pytest.mark.parametrize("name", ["ppo", "sac", "ppo scaled beside"])
def test_acting_changes_nothing_that_was_learned(name):
    policy, session = load(CASES[name], trained(name)[2])
    state = {k: copy.deepcopy(part.state_dict()) for k, part in policy._actor.parts.items()}
    acted(policy, session.env.unwrapped, deterministic=False)
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
    with torch.no_grad(), exploring(agent, samples=False):
        actions, outputs = agent.act(observations, None, timestep=99, timesteps=99)
    expected = policy._actor._native(most_likely(case, actions, outputs))
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
    with torch.no_grad():
        _, outputs = agent.act(observations, None, timestep=99, timesteps=99)
    assert torch.equal(policy.act(observations), outputs["mean_actions"].clamp(-1, 1))


# What is refused


def refusal(case, path, **options):
    with pytest.raises(UsageError) as caught:
        load(case, path, **options)
    return str(caught.value)


def test_a_checkpoint_that_does_not_fit_is_named():
    path = trained("ppo")[2]
    wider = refusal(Case(options={f"{NETWORK}.layers": [9]}), path)
    assert wider.startswith(f"--checkpoint {path}: does not fit this run (RuntimeError:")
    assert "net_container.0.weight" in wider
    assert "\n" not in wider
    other = refusal(Case("sac"), path)
    assert other.startswith(f"--checkpoint {path}: does not fit SAC with these options: it has val")
    assert "lacks critic_1, critic_2, target_critic_1, target_critic_2. Give the --alg" in other
    bare = refusal(CASES["ppo bare"], path)
    assert "with these options: it has observation_preprocessor. Give" in bare


def test_a_file_that_is_no_checkpoint_of_skrl_is_named(tmp_path):
    path = tmp_path / "other.pth"
    assert "cannot be read as a checkpoint (FileNotFoundError" in refusal(CASES["ppo"], path)
    torch.save({"model": {}, "epoch": 3}, path)
    text = refusal(CASES["ppo"], path)
    assert text.startswith(f"--checkpoint {path}: does not fit PPO")
    assert "it has epoch, model and lacks observation_preprocessor, policy, " in text
    path.write_bytes(b"torn")
    assert "it cannot be read as a checkpoint" in refusal(CASES["ppo"], path)
    path.write_bytes(b"\x80\x04N.")
    assert "written by skrl's agents for jax" in refusal(CASES["ppo"], path)
    assert "Add --framework jax." in refusal(CASES["ppo"], path)


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    path = tmp_path / "agent_8.pt"
    torch.save({**torch.load(trained("ppo")[2], weights_only=True), "more": Path("x")}, path)
    text = refusal(CASES["ppo"], path)
    assert text.startswith(f"--checkpoint {path}: loading it would run code (pathlib.")
    assert "--trust" in text
    assert "has more" in refusal(CASES["ppo"], path, trust=True)


def test_agents_that_are_not_adapted_are_named():
    agent = CASES["ppo"].agent()
    agent["agent"]["class"] = "TRPO"
    assert "agent.agent.class=TRPO: of skrl's agents" in refusal(
        CASES["ppo"], trained("ppo")[2], agent=agent
    )
    agent["agent"]["class"] = "DQN"
    assert "has no q_network, with which DQN acts" in refusal(
        CASES["ppo"], trained("ppo")[2], agent=agent
    )


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
