"""What Isaac Lab's registry says of a task: run in a process of its own, where the app starts.

python -m rltrain_isaaclab.answer TASK FILE
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gymnasium.spaces import Box, Discrete, MultiDiscrete

from rltrain_isaaclab import compat
from rltrain_isaaclab.images import channels_last

__all__ = ["answer"]

_AGENT = "_cfg_entry_point"

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""What Isaac Lab's reader of YAML leaves as text, such as 3e-4; rltrain's own does not."""


def answer(task: str) -> dict[str, Any] | None:
    """Return what is known of a task, in what JSON can carry, or None if it is not registered.

    The keys are multi_agent; num_envs; max_episode_length in steps; action and actions as in
    `rltrain.types.TaskInfo`; image, the shape of what the policy sees if that is an image; agents,
    by the key in the registry either options or the error with which they cannot be loaded.
    """
    compat.start_to_look()
    registered = compat.registered(task)
    if registered is None:
        return None
    cfg, _ = compat.load(task)
    if compat.has_several_agents(cfg):
        return {"multi_agent": True}
    action, actions = _actions(getattr(cfg, "action_space", None))
    step = cfg.sim.dt * cfg.decimation
    return {
        "multi_agent": False,
        "num_envs": int(cfg.scene.num_envs),
        "max_episode_length": math.ceil(cfg.episode_length_s / step),
        "action": action,
        "actions": actions,
        "image": _image(getattr(cfg, "observation_space", None)),
        "agents": {
            key: _agent(task, key)
            for key in registered
            if key.endswith(_AGENT) and key != f"env{_AGENT}"
        },
    }


def _actions(space: Any) -> tuple[str, list[int] | None]:
    """Return kind and sizes of actions; `space` is written as direct tasks do, or None.

    A number or a list of them are the shape of continuous actions, {n} are n choices, and [{n},
    {m}] two choices at a time. The actions of manager-based tasks are continuous.
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
    return "continuous", None


def _image(space: Any) -> list[int] | None:
    """Return the shape of images, channels last.

    Of vectors some tasks settle the size only when they are made.
    """
    shape = getattr(space, "shape", space)
    if isinstance(shape, (list, tuple)) and len(shape) == 3:
        return list(channels_last(shape)) if all(isinstance(n, int) for n in shape) else None
    return None


def _agent(task: str, key: str) -> dict[str, Any]:
    try:
        _, options = compat.load(task, key)
    except Exception as error:  # A library that is not installed, most of the time.
        return {"error": f"{type(error).__name__}: {error}"}
    return {"options": _plain(options)}


def _plain(value: Any) -> Any:
    """Return options as JSON can carry them; what has no value yet is left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Isaac Lab's own `to_dict` makes {} of what has no value.
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
    Path(sys.argv[2]).write_text(json.dumps(answer(sys.argv[1])))
    sys.stdout.flush()
    # Isaac Sim has nothing to lose, and takes seconds to end in any other way.
    os._exit(0)
