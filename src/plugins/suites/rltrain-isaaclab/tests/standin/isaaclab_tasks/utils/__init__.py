"""Looks up registered configurations."""

from __future__ import annotations

import importlib
from pathlib import Path

import gymnasium as gym
import isaaclab.envs  # noqa: F401 - like Isaac Lab, needs the app to run
import yaml


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
