"""The agents with a replay buffer: SAC, TD3, DDPG, DQN and DDQN."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from skrl_fakes import Corridor, FakeSession, small_agent

from rltrain.errors import UsageError
from rltrain.types import TaskInfo
from rltrain_skrl.declare.options import default_agent
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.algorithms import OffPolicy
from rltrain_skrl.run.library import SkrlLibrary
from rltrain_skrl.run.runner import runner_options
from rltrain_skrl.run.torch import algorithms
from rltrain_skrl.run.torch.env import SkrlEnv
from rltrain_skrl.run.torch.runner import SessionRunner
from rltrain_skrl.run.torch.workarounds import random_actions

bootstrap.import_skrl()

ALGORITHMS = {
    "sac": "continuous",
    "td3": "continuous",
    "ddpg": "continuous",
    "dqn": "discrete",
    "ddqn": "discrete",
}


def replay_agent(algorithm, **agent):
    """Return the default options, scaled down: iterations of 6 steps, learning from the third."""
    options = default_agent(TaskInfo("none", ALGORITHMS[algorithm], num_envs=64), algorithm)
    options["agent"] |= {"random_timesteps": 2, "learning_starts": 2, "batch_size": 8} | agent
    options["agent"]["experiment"] = {"write_interval": 6}
    options["memory"]["memory_size"] = 50
    return options


def train(session):
    SkrlLibrary().rltrain_train(session)
    return session


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_iteration_is_recorded(algorithm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = Corridor(8, ALGORITHMS[algorithm], grouped=True)
    session = train(FakeSession(env, replay_agent(algorithm), max_iterations=3))
    assert [record.iteration for record in session.records] == [1, 2, 3]
    assert [record.iterations for record in session.records] == [3, 3, 3]
    assert session.env.episodes.steps == 3 * 6 * 8
    for record in session.records:
        assert "Target / Target (mean)" in record.values
        assert {"time/rollout", "time/update"} <= record.values.keys()
        assert record.values["Own/level"] == 3.0
        assert all(math.isfinite(value) for value in record.values.values())
        assert not any(name.startswith(("Reward", "Episode")) for name in record.values)
    assert not list(tmp_path.iterdir()), "skrl must write no files of its own"


def test_calls_to_the_session():
    session = train(FakeSession(Corridor(8), replay_agent("sac"), max_iterations=1))
    critics = ["critic_1", "critic_2"]
    models = ["policy", *critics, *(f"target_{name}" for name in critics)]
    assert list(session.wrapped) == [*models, "observation_preprocessor", "entropy_coefficient"]
    assert [len(parameters) for parameters in session.syncs] == [12, 7, 1]
    (log,) = session.syncs[2]
    assert log is session.wrapped["entropy_coefficient"].log
    optimizers = {"critic_optimizer", "policy_optimizer", "entropy_optimizer"}
    assert optimizers <= session.watched.keys()


def test_the_entropy_coefficient_may_be_fixed():
    agent = replay_agent("sac", learn_entropy=False)
    session = train(FakeSession(Corridor(8), agent, max_iterations=1))
    assert "entropy_coefficient" not in session.wrapped
    assert len(session.syncs) == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_first_actions_are_random_and_depend_on_the_seed(algorithm):
    def actions():
        env = Corridor(64, ALGORITHMS[algorithm])
        session = train(FakeSession(env, replay_agent(algorithm), max_iterations=1))
        return [action.float().flatten() for action in session.env.unwrapped.actions[:2]]

    first, second = actions()
    low, high = (1.0, 2.0) if ALGORITHMS[algorithm] == "discrete" else (-1.0, 1.0)
    assert not torch.equal(first, second)
    assert low <= first.min() < first.mean() < first.max() <= high
    assert all(map(torch.equal, actions(), (first, second)))


def test_random_actions_of_an_unbounded_space():
    space = spaces.Box(np.array([-np.inf, -0.1], np.float32), np.array([np.inf, 0.1], np.float32))
    actions = random_actions(space, 1000, torch.device("cpu"))
    assert actions.shape == (1000, 2)
    assert actions[:, 0].std() > 0.5
    assert actions[:, 1].abs().max() <= 0.1


@pytest.mark.parametrize("algorithm", ["td3", "ddpg"])
def test_noise_needs_bounds(algorithm):
    env = Corridor(8)
    env.single_action_space = spaces.Box(-np.inf, np.inf, (1,))
    with pytest.raises(UsageError, match=f"class={algorithm.upper()}: .* has none"):
        SessionRunner(FakeSession(env, replay_agent(algorithm), max_iterations=1))


def test_sac_acts_without_bounds():
    env = Corridor(8)
    env.single_action_space = spaces.Box(-np.inf, np.inf, (1,))
    train(FakeSession(env, replay_agent("sac"), max_iterations=1))
    assert all(action.isfinite().all() for action in env.actions)


@pytest.mark.parametrize("algorithm", ["ppo", *ALGORITHMS])
def test_a_checkpoint_loads_in_stock_skrl(algorithm):
    from skrl.utils.runner.torch import Runner

    options = small_agent() if algorithm == "ppo" else replay_agent(algorithm)
    corridor = functools.partial(Corridor, 8, ALGORITHMS.get(algorithm, "continuous"))
    session = train(FakeSession(corridor(), options, max_iterations=2))
    theirs = runner_options(session)
    theirs["agent"]["experiment"] = {"write_interval": 0, "checkpoint_interval": 0}
    theirs["memory"].pop("save_replay_buffer", None)
    stock = Runner(SkrlEnv(corridor(), "cpu", "episode"), theirs)
    stock.agent.load(str(session.run_folder.checkpoints / session.saved[-1][0]))
    for role, model in stock.agent.models.items():
        for mine, other in zip(session.wrapped[role].parameters(), model.parameters(), strict=True):
            assert torch.equal(mine, other)
    scaler = stock.agent.checkpoint_modules.get("observation_preprocessor")
    if hasattr(scaler, "running_mean"):
        ours = session.wrapped["observation_preprocessor"]
        assert torch.equal(scaler.running_mean, ours.running_mean)


def test_an_empty_buffer_is_filled_again_before_learning_resumes(monkeypatch):
    first = train(FakeSession(Corridor(8), replay_agent("ddpg"), max_iterations=1))
    path = first.run_folder.checkpoints / first.saved[-1][0]
    learned = []
    order = algorithms.SessionDDPG.__mro__
    stock = order[order.index(OffPolicy) + 1]
    monkeypatch.setattr(
        stock, "update", lambda self, *, timestep, timesteps: learned.append(timestep)
    )
    options = replay_agent("ddpg", learning_starts=4)
    train(FakeSession(Corridor(8), options, max_iterations=2, checkpoint=str(path)))
    # The first iteration had the steps 0 to 5.
    assert learned == [10, 11]
