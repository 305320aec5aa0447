"""Combinations that rl_games cannot train, or not with rltrain."""

from __future__ import annotations

from typing import Any

from rltrain.agent_options import get_dotted
from rltrain.config import RunConfig
from rltrain.specs import Refusal
from rltrain.types import TaskInfo

__all__ = ["REFUSALS"]

_ALGORITHMS = {"a2c_continuous": "continuous", "a2c_discrete": "discrete"}


def _option(config: RunConfig, key: str) -> Any:
    return get_dotted(config.agent, f"params.{key}", None)


def _other_algorithm(config: RunConfig, task: TaskInfo) -> bool:
    return _option(config, "algo.name") not in _ALGORITHMS


def _other_actions(config: RunConfig, task: TaskInfo) -> bool:
    return _ALGORITHMS[_option(config, "algo.name")] != task.action


REFUSALS = (
    Refusal(
        "multi-discrete actions",
        lambda config, task: task.action == "multi_discrete",
        "rl_games' multi-discrete agent has not been adapted.",
        "use --library skrl.",
    ),
    Refusal(
        "params.algo.name other than PPO's",
        _other_algorithm,
        "rl_games' SAC ignores every sign of other ranks and trains one replica a rank.",
        "a2c_continuous or a2c_discrete, which are rl_games' names for PPO.",
    ),
    Refusal(
        "params.algo.name for other actions",
        _other_actions,
        "the agent options and the task speak of different kinds of actions.",
        "a2c_continuous for continuous actions, a2c_discrete for discrete ones.",
    ),
    Refusal(
        "params.config.central_value_config",
        lambda config, task: _option(config, "config.central_value_config") is not None,
        "the asymmetric critic has an optimiser of its own, which is not averaged over ranks yet.",
        "leave it out; actor and critic then see the same observations.",
    ),
    Refusal(
        "params.config.population_based_training",
        lambda config, task: bool(_option(config, "config.population_based_training")),
        "rl_games trains a population as separate jobs, which the run folder cannot hold.",
        "one run for each member.",
    ),
    Refusal(
        "params.config.self_play_config",
        lambda config, task: _option(config, "config.self_play_config") is not None,
        "self-play swaps opponents by rank 0's results alone.",
        "leave it out.",
    ),
    Refusal(
        "params.config.max_steps",
        lambda config, task: (_option(config, "config.max_steps") or -1) > 0,
        "rl_games passes it to numpy as an axis, which fails.",
        "params.config.max_frames, which counts the same.",
    ),
    Refusal(
        "params.config.normalize_rms_advantage",
        lambda config, task: bool(_option(config, "config.normalize_rms_advantage")),
        "rl_games fails on it with a TypeError (its pull request 365).",
        "params.config.normalize_advantage.",
    ),
)
