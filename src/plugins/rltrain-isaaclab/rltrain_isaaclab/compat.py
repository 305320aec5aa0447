"""All that differs between generations of Isaac Lab, and all that is known of its start.

In Isaac Lab 2 the app (Isaac Sim) has to run before anything else of Isaac Lab can be imported. In
Isaac Lab 3 a task's configuration comes first: it decides whether there is an app at all.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError

__all__ = [
    "NEEDS_CAMERAS",
    "Launch",
    "end_with",
    "has_several_agents",
    "load",
    "make",
    "registered",
    "start",
    "start_to_look",
]

NEEDS_CAMERAS = "enable_cameras"
"""In the message with which Isaac Lab 2 refuses cameras that the app was not started for."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV, signal.SIGHUP)


@dataclasses.dataclass(frozen=True)
class Launch:
    """How the app is started."""

    device: str
    """Where physics and rendering are, such as "cuda:1"."""
    headless: bool = True
    """Whether it opens no window."""
    enable_cameras: bool | None = None
    """Whether it renders for cameras; None leaves it to Isaac Lab."""
    distributed: bool = False
    """Whether other ranks on this node share its processor cores."""

    def arguments(self) -> dict[str, Any]:
        """Return them as Isaac Lab's launchers take them."""
        arguments = dataclasses.asdict(self)
        if self.enable_cameras is None:
            del arguments["enable_cameras"]
        return arguments


_held: list[tuple[Any, Launch]] = []
"""What runs in this process, the launcher of the app or the context that Isaac Lab 3 gives, and how
it was started. A process has one, for as long as it lives: closing it ends the process, with status
0."""


def start(
    task: str,
    launch: Launch,
    presets: Sequence[str],
    change: Callable[[Any], None],
) -> Any:
    """Start what a task needs, unless it runs already, and return the task's configuration.

    Args:
        task: its name, perhaps behind that of a module, "module:Name".
        launch: how to start.
        presets: such as "presets=newton_mjwarp", as Isaac Lab 3's users type them.
        change: completes the configuration, in place.
    """
    launch_simulation = _launch_simulation()
    if launch_simulation is None:
        _start_app(launch)
    registered(task)
    cfg, _ = load(task, presets=presets)
    change(cfg)
    if launch_simulation is not None and not _held:
        with _as_if_alone():
            context = launch_simulation(cfg, _shown_nowhere(launch) | launch.arguments())
            context.__enter__()
        _held.append((context, launch))
    return cfg


def _shown_nowhere(launch: Launch) -> dict[str, str]:
    """Return what Isaac Lab 3 is told besides: its windows are the configuration's visualizers."""
    return {"visualizer": "none"} if launch.headless else {}


def start_to_look() -> None:
    """Make it possible to look at configurations; an app that this takes opens no window."""
    if _launch_simulation() is None:
        _start_app(Launch("cpu"))


def end_with(status: int) -> None:
    """Let this process, if the app runs in it, end with a status; the last word counts.

    Isaac Sim ends a process with status 0, whatever has happened, when it is closed, and closes
    itself at the exit in some versions. The processes of `multiprocessing`, such as ranks that
    rltrain starts, end at once in any case.
    """
    atexit.unregister(_end)
    if any(hasattr(runs, "app") for runs, _ in _held) or "omni.kit.app" in sys.modules:
        atexit.register(_end, status)


def _end(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    if status:
        os._exit(status)
    for runs, _ in _held:
        if hasattr(runs, "app"):
            runs.app.close()
        else:
            runs.__exit__(None, None, None)


def registered(task: str) -> Mapping[str, Any] | None:
    """Return what is registered with a task, such as its entry points; None if it is unknown."""
    import gymnasium

    importlib.import_module("isaaclab_tasks")
    module, _, name = task.rpartition(":")
    if module:
        importlib.import_module(module)
    spec = gymnasium.registry.get(name)
    return None if spec is None else spec.kwargs


def load(task: str, agent: str | None = None, presets: Sequence[str] = ()) -> tuple[Any, Any]:
    """Return a task's configuration, and what is registered under an agent's entry point.

    Raises:
        ValueError: there is no such entry point or preset.
    """
    utils = importlib.import_module("isaaclab_tasks.utils")
    name = task.rpartition(":")[2]
    if hasattr(utils, "resolve_task_config"):
        # It reads presets from the command line.
        with _as_if_alone(*presets):
            env_cfg, agent_cfg = utils.resolve_task_config(name, agent)
        return env_cfg, agent_cfg
    if presets:
        raise ValueError(f"{' '.join(presets)}: this version of Isaac Lab has no presets")
    env_cfg = utils.load_cfg_from_registry(name, "env_cfg_entry_point")
    return env_cfg, utils.load_cfg_from_registry(name, agent) if agent else None


def make(task: str, cfg: Any, render_mode: str | None = None) -> Any:
    """Return the environments of a configuration, without Gymnasium's wrappers."""
    import gymnasium

    name = task.rpartition(":")[2]
    return gymnasium.make(name, cfg=cfg, render_mode=render_mode).unwrapped


def has_several_agents(cfg: Any) -> bool:
    """Tell whether a configuration is of a task with several agents."""
    return any("MARL" in base.__name__ for base in type(cfg).__mro__)


def _launch_simulation() -> Callable[..., Any] | None:
    """Return what starts Isaac Lab 3; None for Isaac Lab 2."""
    found = getattr(importlib.import_module("isaaclab.app"), "launch_simulation", None)
    if found is None and _has_file("isaaclab_tasks", "utils/sim_launcher.py"):
        # Where the betas of Isaac Lab 3 have it.
        found = importlib.import_module("isaaclab_tasks.utils.sim_launcher").launch_simulation
    launch: Callable[..., Any] | None = found
    return launch


def _has_file(package: str, path: str) -> bool:
    """Look for a file without importing the package, which would need the app."""
    spec = importlib.util.find_spec(package)
    return bool(spec and spec.origin and (Path(spec.origin).parent / path).is_file())


def _start_app(launch: Launch) -> None:
    if _held:
        if launch.enable_cameras and not _held[0][1].enable_cameras:
            raise UsageError(
                "--enable-cameras: Isaac Lab runs in this process already, without "
                "rendering, and can be started only once. Start a new process."
            )
        return
    launcher = importlib.import_module("isaaclab.app").AppLauncher
    with _as_if_alone():
        app = launcher({"enable_cameras": False, **launch.arguments()})
    _held.append((app, launch))


@contextlib.contextmanager
def _as_if_alone(*arguments: str) -> Iterator[None]:
    """Hide this process's command line, which Isaac Sim would read; keep its signal handlers.

    Isaac Lab's own handlers close the app, which waits for peers that may be gone, and ends the
    process as if nothing had happened.
    """
    before, sys.argv = sys.argv, [*sys.argv[:1], *arguments]
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        sys.argv = before
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
