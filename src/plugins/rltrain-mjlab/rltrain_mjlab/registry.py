"""mjlab's registry of tasks: the one place that imports mjlab.

Importing mjlab imports Warp, but does not start it: no CUDA context is made before the first
environment is.
"""

from __future__ import annotations

import math
from typing import Any

# Registers mjlab's own tasks, and those of the entry points `mjlab.tasks`.
import mjlab.tasks  # noqa: F401
import warp
from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg

__all__ = ["agent_config", "env_config", "episode_steps", "names", "start_warp"]


def names() -> list[str]:
    """Return the names of all tasks."""
    return list(list_tasks())


def env_config(task: str, play: bool = False) -> Any:
    """Return a copy of a task's configuration, for training or as it is played."""
    return load_env_cfg(task, play=play)


def agent_config(task: str) -> Any:
    """Return a copy of the configuration for rsl_rl that is registered with a task."""
    return load_rl_cfg(task)


def episode_steps(task: str) -> int | None:
    """Return the length of a task's episodes in steps, or None if there is no such task."""
    if task not in list_tasks():
        return None
    config = load_env_cfg(task)
    step_dt = config.sim.mujoco.timestep * config.decimation
    steps: int = math.ceil(config.episode_length_s / step_dt)
    return steps


def start_warp(device: str) -> None:
    """Start Warp on this rank's device, and make it the default.

    Warp greets with the memory of every visible GPU, for which it opens a context on each: what
    eight ranks would do to eight GPUs. It is told to greet only those who wait for warnings.
    Kernels are compiled in a folder of each process, and moved into the cache as a whole, so that
    ranks that compile the same at the same time do not disturb each other.

    Args:
        device: by torch's name, which is Warp's too, such as "cuda:1".
    """
    warp.config.log_level = max(warp.config.log_level, warp.LOG_WARNING)
    warp.set_device(device)
