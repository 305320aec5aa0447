"""Reads mjlab's task registry.

Importing mjlab imports Warp but does not start it: no CUDA context is created before the first
environment.
"""

from __future__ import annotations

import os
from typing import Any

import mjlab  # Sets MUJOCO_GL=egl, unless it has a value.
import warp

from rltrain.errors import UsageError
from rltrain_adapters.sources import import_for

try:
    import mujoco  # noqa: F401
except (AttributeError, ImportError) as error:  # What PyOpenGL and MuJoCo raise without EGL.
    raise UsageError(
        "mjlab needs MuJoCo, which cannot load OpenGL as MUJOCO_GL="
        f"{os.environ.get('MUJOCO_GL')} asks: {type(error).__name__}: {error}. To train without "
        "pictures: MUJOCO_GL=disabled. For pictures, install EGL (libegl1 on Debian), and let "
        "containers use the GPU for graphics: NVIDIA_DRIVER_CAPABILITIES=all."
    ) from error

# Registers mjlab's own tasks, and those of the entry-point group `mjlab.tasks`.
import mjlab.tasks  # noqa: F401
from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg, load_runner_cls


def has(task: str) -> bool:
    """Return whether there is a task, "Name" or "module:Name"."""
    return import_for(task) in list_tasks()


def env_config(task: str, play: bool = False) -> Any:
    """Return a copy of a task's configuration, for training or for playing."""
    return load_env_cfg(import_for(task), play=play)


def agent_config(task: str) -> Any:
    """Return a copy of the rsl_rl configuration that is registered with a task."""
    return load_rl_cfg(import_for(task))


def own_runner(task: str) -> str | None:
    """Return the class of a task's runner, "module:Name", unless it is one of mjlab's own."""
    runner = load_runner_cls(import_for(task))
    if runner is None or runner.__module__.startswith(("mjlab.", "rsl_rl.")):
        return None
    return f"{runner.__module__}:{runner.__qualname__}"


def start_warp(device: str) -> None:
    """Start Warp on this rank's device, and make it the default device.

    At log levels below WARNING, Warp prints the memory of every visible GPU when it starts,
    and creates a CUDA context on each to read it: with eight ranks, eight contexts per GPU. So the
    log level is raised first. Ranks can compile the same kernel at the same time, because Warp
    compiles in a folder per process and moves the result into its cache atomically.

    Args:
        device: torch's name of the device, such as "cuda:1"; Warp uses the same names.
    """
    if hasattr(warp, "LOG_WARNING"):
        warp.config.log_level = max(warp.config.log_level, warp.LOG_WARNING)
    else:  # Warp 1.12, with mjlab 1.2.
        warp.config.quiet = True
    warp.set_device(device)
