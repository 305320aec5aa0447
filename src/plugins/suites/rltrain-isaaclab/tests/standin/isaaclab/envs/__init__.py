"""Environments and their configurations."""

from __future__ import annotations

import importlib
from dataclasses import MISSING

from isaaclab.app import RUNNING
from isaaclab.utils import configclass

if not RUNNING:
    raise ModuleNotFoundError("No module named 'omni'")


@configclass
class SimulationCfg:
    device: str = "cuda:0"
    dt: float = 1 / 120
    render_interval: int = 2


@configclass
class SceneCfg:
    num_envs: int = MISSING
    env_spacing: float = 4.0


@configclass
class _EnvCfg:
    seed: int | None = None
    decimation: int = 2
    episode_length_s: float = 5.0
    is_finite_horizon: bool = False
    sim: SimulationCfg = SimulationCfg()
    scene: SceneCfg = MISSING


@configclass
class ManagerBasedRLEnvCfg(_EnvCfg):
    observations: object = MISSING
    actions: object = MISSING
    rewards: object = MISSING


@configclass
class DirectRLEnvCfg(_EnvCfg):
    action_space: object = MISSING
    observation_space: object = MISSING
    state_space: object = 0


@configclass
class DirectMARLEnvCfg(_EnvCfg):
    possible_agents: list = MISSING
    action_spaces: dict = MISSING
    observation_spaces: dict = MISSING
    state_space: object = 0


def __getattr__(name):
    """Import torch only where an environment is made."""
    if name.endswith("Env") or name == "multi_agent_to_single_agent":
        return getattr(importlib.import_module("isaaclab.envs.rl_env"), name)
    raise AttributeError(name)
