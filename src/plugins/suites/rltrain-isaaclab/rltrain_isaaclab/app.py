"""The app in this process: how it is started and ends, and what it must not change.

In Isaac Lab 2 it is Isaac Sim; Isaac Lab 3 has a context in its place, with or without Isaac Sim.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rltrain.errors import UsageError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV, signal.SIGHUP)


@dataclasses.dataclass(frozen=True)
class Launch:
    """The arguments that start the app."""

    device: str
    """The device of physics and rendering, such as "cuda:1"."""
    headless: bool = True
    """Whether to run without a window."""
    enable_cameras: bool | None = None
    """Whether to render for cameras; None lets Isaac Lab decide."""
    distributed: bool = False
    """Whether other ranks on this node share its CPU cores."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for Isaac Lab's launchers."""
        arguments = dataclasses.asdict(self)
        if self.enable_cameras is None:
            del arguments["enable_cameras"]
        return arguments


_held: list[tuple[Any, Launch]] = []
"""What runs in this process (Isaac Lab 2's app launcher, or Isaac Lab 3's context), and how it was
started. A process starts at most one and never closes it early: closing ends the process with
status 0."""


def start(launch: Launch) -> None:
    """Start Isaac Lab 2's app, unless it runs.

    Raises:
        UsageError: it runs without rendering, which is asked for.
    """
    if _held:
        if launch.enable_cameras and not _held[0][1].enable_cameras:
            raise UsageError(
                "--enable-cameras: Isaac Lab already runs in this process without rendering, and "
                "can be started only once per process. Start a new process."
            )
        return
    # In the wheel of 2.3 the module is empty: only this statement finds the class.
    from isaaclab.app import AppLauncher  # type: ignore[import-not-found]

    with isolated():
        app = AppLauncher({"enable_cameras": False, **launch.arguments()})
    _held.append((app, launch))


def enter(launch_simulation: Callable[..., Any], cfg: Any, launch: Launch) -> None:
    """Enter Isaac Lab 3's context for a configuration, unless one was entered."""
    if _held:
        return
    with isolated():
        context = launch_simulation(cfg, launch.arguments())
        context.__enter__()
    _held.append((context, launch))


@contextlib.contextmanager
def isolated(*arguments: str) -> Iterator[None]:
    """Hide the command line, which Isaac Sim would parse, and restore the signal handlers after.

    The handlers that Isaac Lab 2 and 3 install close the app, which waits for ranks that may be
    gone, and then ends the process with status 0.
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


def end_with(status: int) -> None:
    """Make this process exit with a status if the app runs in it; the last call counts.

    Isaac Sim, when closed, ends the process with status 0 even after an error, and some versions
    close it at exit. Processes of `multiprocessing`, such as the ranks that rltrain starts, do not
    run exit handlers and are not affected.
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
