"""Small trainings on one rank, through the adapter."""

from __future__ import annotations

import functools
import math
import os

import numpy as np
import pytest
import torch
from gymnasium import spaces
from messages import says
from skrl_fakes import ACTIONS, Corridor, FakeSession, small_agent

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.types import TaskInfo, World
from rltrain_skrl.declare.options import default_agent
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.algorithms import OffPolicy
from rltrain_skrl.run.library import SkrlLibrary
from rltrain_skrl.run.runner import runner_options
from rltrain_skrl.run.torch import algorithms
from rltrain_skrl.run.torch.env import SkrlEnv
from rltrain_skrl.run.torch.runner import SessionRunner
from rltrain_skrl.run.torch.workarounds import random_actions

skrl = bootstrap.import_skrl()


def train(session):
    SkrlLibrary().rltrain_train(session)
    return session


def saved(session):
    return [session.run_folder.checkpoints / name for name, _ in session.saved]


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


@pytest.mark.parametrize(
    ("algorithm", "action", "num_envs"),
    [
        *(("ppo", action, num_envs) for action in ACTIONS for num_envs in (1, 16)),
        *((algorithm, action, 8) for algorithm, action in ALGORITHMS.items()),
    ],
)
def test_each_iteration_is_recorded(algorithm, action, num_envs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent, steps, named = small_agent(action), 4, {"Loss / Policy loss", "Learning / Learning rate"}
    if algorithm != "ppo":
        agent, steps, named = replay_agent(algorithm), 6, {"Target / Target (mean)"}
    env = Corridor(num_envs, action, grouped=algorithm != "ppo")
    session = FakeSession(env, agent, max_iterations=3)
    assert SkrlLibrary().rltrain_train(session).iterations == 3
    numbers = [(record.iteration, record.iterations) for record in session.records]
    assert numbers == [(1, 3), (2, 3), (3, 3)]
    assert session.env.episodes.steps == 3 * steps * num_envs
    assert env.resets == 1
    for record in session.records:
        told = {"Info / distance", "time/rollout", "time/update"}
        assert named | told <= record.values.keys()
        assert record.values["Own/level"] == 3.0
        assert all(math.isfinite(value) for value in record.values.values())
        assert not any(name.startswith(("Reward", "Episode")) for name in record.values)
    assert not list(tmp_path.iterdir()), "skrl must write no files of its own"


def test_calls_to_the_session():
    session = train(FakeSession(Corridor(8, grouped=True), small_agent(), max_iterations=1))
    scalers = [f"{name}_preprocessor" for name in ("observation", "state", "value")]
    assert list(session.wrapped) == ["policy", "value", *scalers]
    assert session.streams == ["learner"]
    (parameters,) = session.syncs
    models = [session.wrapped["policy"], session.wrapped["value"]]
    assert {id(p) for p in parameters} == {id(p) for m in models for p in m.parameters()}
    assert len(parameters) == len(set(parameters))
    watched = session.watched["optimizer"]()
    assert {"learning rate", "exp_avg of parameter 0"} <= watched.keys()


@pytest.mark.parametrize("before", [None, "0"])
def test_environment_variables_are_not_changed(before, monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONHASHSEED", before)
    train(FakeSession(Corridor(8), small_agent(), max_iterations=1))
    assert os.environ.get("PYTHONHASHSEED") == before


def test_without_max_iterations_the_files_length_is_kept():
    agent = small_agent()
    agent["trainer"]["timesteps"] = 11  # Two rollouts of four steps; the rest is unused.
    session = train(FakeSession(Corridor(8), agent))
    assert len(session.records) == 2


def test_checkpoints_are_saved_at_the_interval_and_at_the_end():
    agent = small_agent()
    set_dotted(agent, "agent.experiment.checkpoint_interval", 6)
    session = train(FakeSession(Corridor(8), agent, max_iterations=4))
    assert session.saved == [("agent_8.pt", 2), ("agent_12.pt", 3), ("agent_16.pt", 4)]
    set_dotted(agent, "agent.experiment.checkpoint_interval", 0)
    session = train(FakeSession(Corridor(8), agent, max_iterations=4))
    assert session.saved == [("agent_16.pt", 4)]
    set_dotted(agent, "agent.experiment.checkpoint_interval", "auto")
    session = train(FakeSession(Corridor(8), agent, max_iterations=20))
    assert [iteration for _, iteration in session.saved] == list(range(2, 21, 2))


@pytest.mark.parametrize(
    "change", [{"models.policy.network.0.layers": [8]}, {"agent.observation_preprocessor": None}]
)
def test_a_checkpoint_that_does_not_fit_is_refused(change):
    first = train(FakeSession(Corridor(8), small_agent(), max_iterations=1))
    agent = small_agent()
    for key, value in change.items():
        set_dotted(agent, key, value)
    with pytest.raises(UsageError, match="does not fit"):
        train(FakeSession(Corridor(8), agent, checkpoint=str(saved(first)[-1])))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("models.policy.class", "Nonsense", "Nonsense"),
        ("models.value.network.0.input", "STATES", "Write OBSERVATIONS"),
    ],
)
def test_wrong_options_are_usage_errors(key, value, says):
    agent = small_agent()
    set_dotted(agent, key, value)
    with pytest.raises(UsageError, match=says):
        train(FakeSession(Corridor(8), agent, max_iterations=1))


@pytest.mark.parametrize("key", ["clip_actions", "clip_mean_actions"])
def test_actions_without_bounds_are_not_clipped(key):
    agent, env = small_agent(), Corridor(8)
    agent["models"]["policy"][key] = True
    env.single_action_space = spaces.Box(-np.inf, np.inf, (1,))
    with says(UsageError):
        train(FakeSession(env, agent, max_iterations=1))


def test_files_of_older_versions_work():
    agent = small_agent()
    options = agent["agent"]
    del options["gae_lambda"]
    options |= {"lambda": 0.7, "clip_predicted_values": True, "random_timesteps": 0}
    options |= {"learning_starts": 0, "state_preprocessor": options.pop("observation_preprocessor")}
    options["experiment"] |= {"directory": "cartpole", "experiment_name": "", "write_interval": 9}
    session = FakeSession(Corridor(8), agent, max_iterations=1)
    with bootstrap.configured(session.world):
        runner = SessionRunner(session)
    assert runner.agent.cfg.gae_lambda == 0.7
    assert runner.agent.cfg.observation_preprocessor is not None
    assert runner.agent.cfg.state_preprocessor is None
    train(FakeSession(Corridor(8), agent, max_iterations=1))


@pytest.mark.parametrize("rank", [0, 3])
def test_models_are_built_equal_before_any_broadcast(rank):
    """skrl adds the rank to its seed; this fake session broadcasts nothing."""
    world = World(rank=rank, world_size=4)
    session = FakeSession(Corridor(8), small_agent(), world=world)
    with bootstrap.configured(world):
        SessionRunner(session)
        assert skrl.config.torch.key == session.seeds.learner
    built = torch.cat([p.flatten() for p in session.wrapped["policy"].parameters()])
    alone = FakeSession(Corridor(8), small_agent())
    with bootstrap.configured(alone.world):
        SessionRunner(alone)
    expected = torch.cat([p.flatten() for p in alone.wrapped["policy"].parameters()])
    assert torch.equal(built, expected)
    assert (session.seeds.learner == alone.seeds.learner) == (rank == 0)


def test_nothing_grows_from_iteration_to_iteration():
    held = []

    class Watching(FakeSession):
        def record(self, record):
            held.append(sum(map(len, agent().tracking_data.values())))
            return super().record(record)

    session = Watching(Corridor(8), small_agent(), world=World(rank=1), max_iterations=3)
    agent = lambda: runner.agent  # noqa: E731
    with bootstrap.configured(session.world):
        runner = SessionRunner(session)
        runner.train()
    assert held == [0, 0, 0]
    assert session.saved == [], "only rank 0 saves"


bootstrap.import_skrl()


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
    with says(UsageError):
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
    assert not theirs["trainer"]["close_environment_at_exit"], "the run closes it"
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
