"""Tells what the plugin sees of Isaac Lab's environments: of the stand-in's, and of the real ones.

python surface.py TASK prints it for a task of the stand-in, in a process of its own.
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

METHODS = ("reset", "step", "render", "close")
READ = (
    *("num_envs", "device", "step_dt", "max_episode_length", "episode_length_buf"),
    *("reset_terminated", "reset_time_outs", "reward_buf", "render_mode"),
    *("single_observation_space", "single_action_space", "action_space"),
)
SETTINGS = ("decimation", "episode_length_s", "is_finite_horizon", "sim.dt", "sim.device")
NAMES = ("load_cfg_from_registry",)
"""Functions of `isaaclab_tasks.utils`."""


def surface(env: Any) -> dict[str, Any]:
    """Describe an environment, before and after steps in which an episode ends."""
    import torch

    utils = sys.modules["isaaclab_tasks.utils"]
    told: dict[str, Any] = {name: list(_parameters(getattr(utils, name))) for name in NAMES}
    told |= {name: list(_parameters(getattr(env, name))) for name in METHODS}
    told["rendered"] = _kind(env.render(), env)
    observations, extras = env.reset(seed=1)
    told["reset"] = _kind(observations, env), type(extras).__name__, _extras(extras, env)
    held = env.extras is extras
    actions = torch.zeros(env.action_space.shape)
    first = env.step(actions)
    told["step"] = [_kind(part, env) for part in first[:4]]
    told["extras"], told["extras are one mapping"] = _extras(first[4], env), held
    env.episode_length_buf = torch.full_like(env.episode_length_buf, env.max_episode_length - 1)
    second = env.step(actions)
    told["ends"] = bool(second[3].all()), bool(second[2].any()), env.episode_length_buf.tolist()
    told["extras at an end"] = _extras(second[4], env)
    told["ends are one buffer"] = first[2] is second[2]
    told |= {f"env.{name}": _kind(getattr(env, name), env) for name in READ}
    for name in SETTINGS:
        value = env.cfg
        for part in name.split("."):
            value = getattr(value, part)
        told[f"cfg.{name}"] = _kind(value, env)
    return json.loads(json.dumps(told))


def _parameters(function: Any) -> Any:
    return inspect.signature(function).parameters


def _extras(extras: Any, env: Any) -> dict[str, Any]:
    """Return the kinds of extras; of the metrics to log, whether all are scalars."""
    return {
        name: all(isinstance(float(part), float) for part in value.values())
        if name == "log"
        else _kind(value, env)
        for name, value in extras.items()
    }


def _kind(value: Any, env: Any) -> Any:
    """Return what kind of thing a value is; tensors by dtype and shape, with n environments."""
    if isinstance(value, dict):
        return {name: _kind(part, env) for name, part in value.items()}
    if hasattr(value, "spaces"):
        return {name: _kind(part, env) for name, part in value.spaces.items()}
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        shape = ["n" if size == env.num_envs else size for size in value.shape or ()]
        return [type(value).__name__, str(value.dtype), shape]
    if callable(value) or hasattr(value, "__dict__"):
        return "object"
    if isinstance(value, float) or type(value) is int:  # Tasks write 5 and 5.0.
        return "number"
    return type(value).__name__


if __name__ == "__main__":
    from rltrain_isaaclab import app, compat
    from rltrain_isaaclab.options import configured

    cfg = compat.start(sys.argv[1], app.Launch("cpu"), lambda: configured(sys.argv[1], {}, ()))
    cfg.scene.num_envs, cfg.sim.device = 3, "cpu"
    print("SURFACE", json.dumps(surface(compat.make(sys.argv[1], cfg))))
