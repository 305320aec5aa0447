"""Small trainings on one rank, through the adapter."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import torch
from gymnasium import spaces
from skrl_fakes import ACTIONS, Corridor, FakeSession, small_agent

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.types import World
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.library import SkrlLibrary
from rltrain_skrl.run.torch.runner import SessionRunner

skrl = bootstrap.import_skrl()


def train(session):
    SkrlLibrary().rltrain_train(session)
    return session


def saved(session):
    return [session.run_folder.checkpoints / name for name, _ in session.saved]


@pytest.mark.parametrize("num_envs", [1, 16])
@pytest.mark.parametrize("action", ACTIONS)
def test_each_iteration_is_recorded(action, num_envs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = FakeSession(Corridor(num_envs, action), small_agent(action), max_iterations=3)
    result = SkrlLibrary().rltrain_train(session)
    assert result.iterations == 3
    assert [record.iteration for record in session.records] == [1, 2, 3]
    assert [record.iterations for record in session.records] == [3, 3, 3]
    assert session.env.episodes.steps == 3 * 4 * num_envs
    assert session.env.unwrapped.resets == 1
    for record in session.records:
        assert {"Loss / Policy loss", "Loss / Value loss", "Info / distance"} <= set(record.values)
        assert {"Learning / Learning rate", "time/rollout", "time/update"} <= set(record.values)
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
    "change",
    [{"models.policy.network.0.layers": [8]}, {"agent.observation_preprocessor": None}],
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
    with pytest.raises(UsageError, match=rf"agent\.models\.policy\.{key}=True: .* no bounds"):
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
