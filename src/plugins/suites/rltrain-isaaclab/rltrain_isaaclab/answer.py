"""Reads what Isaac Lab's registry knows about a task. Runs in a separate process, with the app.

python -m rltrain_isaaclab.answer TASK ENV FILE
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from rltrain.errors import UsageError
from rltrain_isaaclab import compat, drawing, options
from rltrain_isaaclab.images import observed

_AGENT = "_cfg_entry_point"

_NOT_ONE = (
    "The task {task!r} has several agents, which no library plugin supports, and Isaac Lab makes "
    "one of them only where actions are vectors. Choose another task."
)

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""Numbers such as 3e-4, which Isaac Lab's YAML reader leaves as text; rltrain's does not."""


def answer(task: str, env: Mapping[str, Any]) -> dict[str, Any] | None:
    """Describe a task with `env.` options in JSON types, or return None if it is not registered.

    The keys are num_envs; max_episode_length in steps; action and actions as in
    `rltrain.types.TaskInfo`; observations, the shapes of images by group; why_not_rendered, what
    its frames need and this machine lacks, or None; cannot_play, as in `SuiteSpec`; library, which
    the task's authors chose, or None; agents, a mapping from each agent key in the registry to its
    options, or to the error that loading them raised. Or the only key is refused: why the task
    cannot be made as asked.
    """
    try:
        return _answer(task, env)
    except UsageError as error:
        return {"refused": str(error)}
    except (Exception, SystemExit) as error:  # Of someone's task: its last line says most.
        traceback.print_exc()
        last = (str(error).strip().splitlines() or [""])[-1]
        return {"refused": f"The task {task!r} cannot be loaded: {type(error).__name__}: {last}"}


def _answer(task: str, env: Mapping[str, Any]) -> dict[str, Any] | None:
    compat.start_to_look()
    registered = compat.registered(task)
    if registered is None:
        return None
    rest, presets = options.without_presets(env, task)
    cfg = options.configured(task, rest, presets)
    if compat.has_several_agents(cfg):
        action, actions = _joint_actions(cfg.action_spaces.values())
    else:
        action, actions = _actions(getattr(cfg, "action_space", None))
    if action is None:
        return {"refused": _NOT_ONE.format(task=task)}
    step = cfg.sim.dt * cfg.decimation
    found = {
        "num_envs": int(cfg.scene.num_envs),
        "max_episode_length": math.ceil(cfg.episode_length_s / step),
        "action": action,
        "actions": actions,
        "observations": observed(cfg),
        "cannot_play": compat.cannot_play(task, cfg),
        "library": registered.get("default_agent"),
        "agents": {
            key: _agent(task, key, presets)
            for key in registered
            if key.endswith(_AGENT) and key not in (f"env{_AGENT}", compat.PLAYED)
        },
    }
    lacking = compat.lacks(task, cfg)
    if lacking is not None:
        raise UsageError(f"The task {task!r} cannot be made here: {lacking}")
    return {**found, "why_not_rendered": drawing.lacking_for_frames(cfg, env.get("video_source"))}


def _actions(space: Any) -> tuple[str, list[int] | None]:
    """Return the kind and sizes of actions; `space` is as direct tasks declare it, or None.

    A number or a list of numbers is the shape of continuous actions, {n} means n choices, and
    [{n}, {m}] two choices at once. The actions of manager-based tasks are continuous.
    """
    if isinstance(space, Discrete):
        return "discrete", [int(space.n)]
    if isinstance(space, MultiDiscrete):
        return "multi_discrete", [int(n) for n in space.nvec]
    if isinstance(space, set):
        return "discrete", [int(next(iter(space)))]
    if isinstance(space, list) and space and all(isinstance(part, set) for part in space):
        return "multi_discrete", [int(next(iter(part))) for part in space]
    if isinstance(space, Box) and len(space.shape) == 1:
        return "continuous", [int(space.shape[0])]
    if isinstance(space, int) and space > 0:
        return "continuous", [space]
    if isinstance(space, (Dict, Tuple, dict, tuple)):
        raise UsageError(
            f"The task has composite actions, {space}, which no library plugin supports. Choose a "
            "task or a preset with one kind of actions."
        )
    return "continuous", None


def _joint_actions(spaces: Iterable[Any]) -> tuple[str | None, list[int] | None]:
    """Return the kind and size of several agents' actions as one; no kind if they are choices."""
    kinds = [_actions(space) for space in spaces]
    if any(kind != "continuous" or sizes is None for kind, sizes in kinds):
        return None, None
    return "continuous", [sum(sizes[0] for _, sizes in kinds if sizes)]


def _agent(task: str, key: str, presets: Sequence[str]) -> dict[str, Any]:
    try:
        _, agent = compat.load(task, key, presets)
    except Exception as error:  # Usually the library is not installed.
        return {"error": f"{type(error).__name__}: {error}"}
    return {"options": _plain(agent)}


def _plain(value: Any) -> Any:
    """Convert options to JSON types, without fields that have no value (MISSING)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Isaac Lab 2.3 and 3: `to_dict` turns MISSING into {}.
        value = vars(value)
    elif hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {
            str(name): _plain(part)
            for name, part in value.items()
            if not isinstance(part, type(dataclasses.MISSING))
        }
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if callable(value):
        return f"{value.__module__}:{value.__qualname__}"
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(answer(sys.argv[1], json.loads(sys.argv[2]))))
    sys.stdout.flush()
    # Skips Isaac Sim's shutdown, which takes seconds and has nothing to save.
    os._exit(0)
