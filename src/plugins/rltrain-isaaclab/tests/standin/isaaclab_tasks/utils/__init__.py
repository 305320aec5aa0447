"""Looks up registered configurations."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import gymnasium as gym
import isaaclab.envs  # noqa: F401 - like Isaac Lab: generation 2 needs the app to run
import yaml
from isaaclab import GENERATION


def load_cfg_from_registry(task_name, entry_point_key):
    entry = gym.spec(task_name.split(":")[-1]).kwargs.get(entry_point_key)
    if entry is None:
        raise ValueError(f"Could not find configuration for the environment: '{task_name}'.")
    if callable(entry):
        return entry()
    module, _, name = entry.partition(":")
    if name.endswith(".yaml"):
        folder = Path(importlib.import_module(module).__file__).parent
        return yaml.full_load((folder / name).read_text())
    return getattr(importlib.import_module(module), name)()


if GENERATION >= 3:

    def resolve_task_config(task_name, agent_cfg_entry_point):
        from isaaclab_tasks.cartpole_cfg import PRESETS

        cfg = load_cfg_from_registry(task_name, "env_cfg_entry_point")
        for token in sys.argv[1:]:
            name = token.partition("=")[2]
            if name not in PRESETS:
                raise ValueError(f"Unknown preset(s): {name}")
            cfg.sim.dt = PRESETS[name]["sim"]["dt"]
        agent = agent_cfg_entry_point
        return cfg, load_cfg_from_registry(task_name, agent) if agent else None
