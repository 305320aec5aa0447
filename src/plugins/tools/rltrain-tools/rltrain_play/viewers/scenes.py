"""MuJoCo scenes, apart from the simulation, and MuJoCo's own window on them."""

from __future__ import annotations

import copy
import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

from rltrain_play.viewers.controls import Controls, Lines

_CLOSING = 10.0
"""Seconds for the window's thread to end: it first completes its frame, maybe in software."""


def has_scene(env: Any) -> bool:
    """Return whether environments offer `mujoco_scene`; see docs/environments.md."""
    return getattr(env.unwrapped, "mujoco_scene", None) is not None


class Scene:
    """Copies of an environment's `mujoco.MjModel` and `MjData`: viewers write to theirs."""

    def __init__(self, env: Any) -> None:
        """Copy the model of the first environment, for all of them. They have been reset."""
        self._mujoco = importlib.import_module("mujoco")
        self._source = env.unwrapped.mujoco_scene
        self.model: Any = copy.copy(self._source(0)[0])
        self.data: Any = self._mujoco.MjData(self.model)
        self.update(0)

    def update(self, environment: int) -> None:
        """Copy the state of an environment."""
        self._mujoco.mj_copyData(self.data, self.model, self._source(environment)[1])

    @property
    def extent(self) -> float:
        """About how far what moves reaches, in m: a floor is often far larger than a robot.

        It is measured from the first body that can be moved, by joints or as a mocap body: what
        cameras follow.
        """
        import numpy as np

        model, data = self.model, self.data
        moves = model.body_weldid[model.geom_bodyid] != 0
        if not moves.any():
            return float(model.stat.extent)
        followed = ((model.body_weldid != 0) | (model.body_mocapid >= 0)).argmax()
        apart = np.linalg.norm(data.geom_xpos[moves] - data.xpos[followed], axis=1)
        return float((apart + model.geom_rbound[moves]).max())

    @property
    def body(self) -> int:
        """The first body that moves; 0, the world, if none does."""
        return int((self.model.body_weldid != 0).argmax())


class MujocoWindow:
    """MuJoCo's window on one environment; its own keys and mouse move the camera."""

    place = "a window; keys: space (pause), right (one step), backspace (reset), ,/. (environment)"

    def __init__(self, env: Any, controls: Controls, title: str) -> None:
        self.controls, self._title, self._scene = controls, title, Scene(env)
        self._keys: dict[int, Callable[[], None]] = {  # By GLFW's codes.
            32: controls.pause,
            262: controls.step,
            259: controls.reset,
            44: functools.partial(controls.show_next, -1),
            46: functools.partial(controls.show_next, 1),
        }
        before = set(threading.enumerate())
        self._window: Any = importlib.import_module("mujoco.viewer").launch_passive(
            self._scene.model,
            self._scene.data,
            key_callback=self._press,
            show_left_ui=False,
            show_right_ui=False,
        )
        self._threads = set(threading.enumerate()) - before
        if body := self._scene.body:
            with self._window.lock():
                camera = self._window.cam
                camera.type = importlib.import_module("mujoco").mjtCamera.mjCAMERA_TRACKING
                camera.trackbodyid = body
                camera.distance = 3.0 * self._scene.extent

    def _press(self, code: int) -> None:
        if code in self._keys:
            self._keys[code]()

    def is_open(self) -> bool:
        """Return whether the user has not closed it."""
        return bool(self._window.is_running())

    def show(self, lines: Lines) -> None:
        """Copy the environment's state into the window."""
        names, texts = zip(("", self._title), *lines, strict=True)
        with self._window.lock():
            self._scene.update(self.controls.environment)
        self._window.set_texts((None, None, "\n".join(names), "\n".join(texts)))
        self._window.sync()

    def close(self) -> None:
        """Close the window, and wait for its thread: at the end of the process it would crash."""
        self._window.close()
        for thread in self._threads:
            thread.join(_CLOSING)
