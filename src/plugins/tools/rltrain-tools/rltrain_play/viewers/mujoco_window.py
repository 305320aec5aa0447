"""MuJoCo's own window, on the state of one environment."""

from __future__ import annotations

import importlib
import threading
import warnings
from typing import Any

from rltrain.errors import UsageError
from rltrain_play.viewers.controls import HELP, Controls, Status
from rltrain_play.viewers.scenes import Scene

_KEYS = {32: "space", 44: ",", 45: "-", 46: ".", 61: "=", 84: "t", 259: "backspace", 262: "right"}
"""Our names of the keys, by GLFW's codes."""

_CLOSING = 10.0
"""Seconds for the window's thread to end: it first completes what it draws, maybe in software."""


class MujocoWindow:
    """Shows the scene; MuJoCo's own keys and mouse move the camera."""

    def __init__(self, env: Any, controls: Controls, title: str) -> None:
        """Open the window."""
        _check_opens()
        self.controls, self._title = controls, title
        self._scene = Scene(env)
        before = set(threading.enumerate())
        self._window: Any = importlib.import_module("mujoco.viewer").launch_passive(
            self._scene.model,
            self._scene.data,
            key_callback=lambda code: controls.press(_KEYS.get(code, "")),
            show_left_ui=False,
            show_right_ui=False,
        )
        self._threads = set(threading.enumerate()) - before
        self._follow()

    def _follow(self) -> None:
        """Let the camera follow what moves."""
        body, camera = self._scene.body, self._window.cam
        if body:
            mujoco: Any = importlib.import_module("mujoco")
            with self._window.lock():
                camera.type = mujoco.mjtCamera.mjCAMERA_TRACKING
                camera.trackbodyid = body
                camera.distance = 3.0 * self._scene.extent

    @property
    def place(self) -> str:
        """Where to look, and the keys."""
        return HELP

    def is_open(self) -> bool:
        """Return whether the window is open."""
        return bool(self._window.is_running())

    def show(self, status: Status) -> None:
        """Copy the environment's state into the window."""
        names, texts = zip(("", self._title), *status.lines(), strict=True)
        with self._window.lock():
            self._scene.update(self.controls.environment)
        self._window.set_texts((None, None, "\n".join(names), "\n".join(texts)))
        self._window.sync()

    def close(self) -> None:
        """Close the window, and wait for its thread: at the end of the process it would crash."""
        self._window.close()
        for thread in self._threads:
            thread.join(_CLOSING)


def _check_opens() -> None:
    """Check with a hidden window: where MuJoCo cannot open its own, it ends the process."""
    glfw: Any = importlib.import_module("glfw")  # Which MuJoCo requires.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opens = False
        if glfw.init():
            glfw.window_hint(glfw.VISIBLE, glfw.FALSE)
            window = glfw.create_window(64, 64, "", None, None)
            opens = bool(window)
            if window:
                glfw.destroy_window(window)
    if not opens:
        raise UsageError(
            "--viewer native: no window with OpenGL can be opened on this display. Give --viewer "
            "viser or none."
        )
