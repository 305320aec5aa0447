"""How the suite describes tasks before ranks start, and the cost of it."""

from __future__ import annotations

import os
import sys
from unittest.mock import patch

import pytest
from helpers import python
from messages import says

from rltrain.errors import UsageError
from rltrain.types import TaskInfo
from rltrain_isaaclab import asking
from rltrain_isaaclab.plugin import describe, knows, tasks, tuned


@pytest.fixture(autouse=True)
def asked():
    """Record the processes that are started to describe tasks."""
    with patch.object(asking.subprocess, "run", wraps=asking.subprocess.run) as run:
        yield run.call_args_list


def test_a_task_is_described_only_once(asked):
    asking._ask.cache_clear()
    info = describe("Isaac-Cartpole-v0", {})
    assert (info.action, info.num_envs, info.max_episode_length) == ("continuous", 64, 300)
    assert (info.actions, info.observations) == (None, None)
    agent = tuned(info, "rl_games", "ppo")
    assert agent["params"]["config"]["num_actors"] == -1
    assert agent["params"]["config"]["learning_rate"] == pytest.approx(5e-4)
    agent = tuned(info, "rsl_rl", "ppo")
    assert agent["policy"]["actor_hidden_dims"] == [32, 32]
    assert "actor" not in agent  # Its value is MISSING.
    assert tuned(info, "skrl", "ppo")["agent"]["lambda"] == 0.95
    assert tuned(info, "skrl", "sac") is None
    assert len(asked) == 1


def test_several_agents_are_one_where_isaac_lab_makes_one_of_them(monkeypatch):
    monkeypatch.setattr(asking, "_ask_elsewhere", asking._ask_here)
    info = describe("Isaac-Cart-Double-Pendulum-Direct-v0", {})
    assert (info.action, info.actions, info.observations) == ("continuous", (2,), None)
    assert info.agents == {}
    with says(UsageError):
        describe("Isaac-Cart-Choosing-Pendulum-Direct-v0", {})


def test_names_from_other_suites_are_not_looked_up(asked):
    for task in ("CartPole-v1", "rltrain/CartPole-v1", "module:Task", "Isaac", "isaac-x", "a:b:c"):
        assert not knows(task)
    assert knows("Isaac-Cartpole-v0")
    assert not asked
    assert describe("Isaac-Cartpole-v9", {}) is None
    assert len(asked) == 1


MINE = """
import gymnasium

gymnasium.register(
    id="Bot-Walk",
    entry_point="isaaclab.envs:ManagerBasedRLEnv",
    kwargs={"env_cfg_entry_point": "isaaclab_tasks.cartpole_cfg:CartpoleEnvCfg"},
)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Install a project that declares its tasks, and one that cannot be imported."""
    (tmp_path / "my_bots").mkdir()
    (tmp_path / "my_bots" / "__init__.py").write_text(MINE)
    (tmp_path / "broken_bots.py").write_text("import no_such_robot\n'Broken'")
    info = tmp_path / "bots-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bots\nVersion: 1\n")
    groups = "[isaaclab.tasks]\na = broken_bots\nb = my_bots\n"
    (info / "entry_points.txt").write_text(groups)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(tmp_path))
    asking._ask.cache_clear()


@pytest.mark.slow
def test_a_task_of_a_project_that_declares_it(project):
    assert knows("Bot-Walk")
    assert "Bot-Walk" in tasks()
    assert describe("Bot-Walk", {}).num_envs == 64
    assert "my_bots" not in sys.modules
    with pytest.raises(UsageError, match="'Broken': the module 'broken_bots' cannot be imported"):
        describe("Broken", {})


@pytest.mark.slow
def test_a_task_in_a_users_module(project):
    assert knows("my_bots:Bot-Walk")
    info = describe("my_bots:Bot-Walk", {})
    assert info.num_envs == 64
    assert info.library is None
    assert tuned(info, "rsl_rl", "ppo") is None
    assert describe("my_bots:Bot-Run", {}) is None


def test_why_a_task_cannot_be_loaded_is_told(monkeypatch):
    monkeypatch.setattr(asking, "_ask_elsewhere", asking._ask_here)
    with says(UsageError):
        describe("no_such_module:Isaac-X-v0", {})
    with says(UsageError):
        describe("Isaac-Cartpole-v0", {"sim": {"dt": 0}})


def test_options_that_cannot_be_loaded_are_an_error(monkeypatch):
    answer = {"agents": {"rsl_rl_cfg_entry_point": {"error": "ImportError: no rsl_rl"}}}
    monkeypatch.setattr("rltrain_isaaclab.plugin.ask", lambda task, env: answer)
    task = TaskInfo("Isaac-X-v0", "continuous")
    with says(UsageError):
        tuned(task, "rsl_rl", "ppo")


def test_tasks_are_listed_without_importing_them():
    assert "Isaac-Cartpole-v0" in tasks()
    code = """
    import sys, rltrain_isaaclab.plugin as plugin
    plugin.tasks(), plugin.knows("CartPole-v1")
    heavy = "torch", "numpy", "gymnasium", "isaaclab", "isaaclab_tasks"
    print([name for name in heavy if name in sys.modules])
    """
    assert python(code).stdout.strip() == "[]"
