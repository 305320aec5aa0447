"""What the suite tells of every task and preset is what Isaac Lab itself resolves."""

from __future__ import annotations

import math

import pytest

from rltrain_isaaclab import answer, compat
from rltrain_isaaclab.plugin import knows, tasks


def registry():
    import gymnasium
    import isaaclab_tasks  # noqa: F401 - registers them

    return {n: s.kwargs for n, s in gymnasium.registry.items() if "env_cfg_entry_point" in s.kwargs}


def test_every_task_is_known_without_importing_it():
    assert set(tasks()) == set(registry())
    assert all(knows(task) for task in tasks()[::20])


def selections(task):
    """Return the `env.` options that select each of a task's presets, one at a time."""
    from isaaclab_tasks.utils.preset_cli import enumerate_task_presets

    found = enumerate_task_presets(task) or {}
    return [{}, *({kind.value: name} for kind, names in found.items() for name in names)]


def resolved(task, key, env):
    from isaaclab_tasks.utils import resolve_task_config

    return resolve_task_config(task, key, overrides=[f"{a}={b}" for a, b in env.items()])


def values(options, prefix=""):
    """Return the values of options by dotted key; no value (MISSING) is {} in Isaac Lab's dicts."""
    if hasattr(options, "to_dict"):
        options = options.to_dict()
    if isinstance(options, (list, tuple)):
        options = dict(enumerate(options))
    if not isinstance(options, dict):
        return {prefix: as_number(options)}
    found = {}
    for name, value in options.items():
        found |= values(value, f"{prefix}.{name}" if prefix else str(name))
    return found


def as_number(value):
    """Isaac Lab's reader of YAML leaves 3e-4 as text."""
    try:
        return float(value) if isinstance(value, str) and "e" in value else value
    except ValueError:
        return value


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("task", tasks())
def test_options_and_sizes_are_those_that_isaac_lab_resolves(task, monkeypatch):
    monkeypatch.setattr(compat, "_is_installed", lambda package: True)
    keys = [key for key in registry()[task] if key.endswith("_cfg_entry_point")]
    for env in selections(task):
        told = answer.answer(task, env)
        try:
            cfg, _ = resolved(task, None, env)
        except (ImportError, ValueError):
            assert "refused" in told
            continue
        if "refused" in told:
            assert "cannot be made here" in told["refused"]
        if "refused" in told or compat.has_several_agents(cfg):
            continue
        assert told["num_envs"] == cfg.scene.num_envs
        step = cfg.sim.dt * cfg.decimation
        assert told["max_episode_length"] == math.ceil(cfg.episode_length_s / step)
        assert told["library"] == registry()[task].get("default_agent")
        assert set(told["agents"]) == set(keys) - {"env_cfg_entry_point"}
        for key, agent in told["agents"].items():
            try:
                _, own = resolved(task, key, env)
            except Exception:
                assert "error" in agent
                continue
            assert values(agent["options"]) == {
                key: value for key, value in values(own).items() if value != {}
            }
