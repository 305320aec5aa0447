"""A page in the browser, served by viser on this machine: the MuJoCo scene, or frames."""

from __future__ import annotations

import contextlib
import importlib
import io
from typing import Any

from rltrain.errors import UsageError
from rltrain_play.video.recorder import render_frame
from rltrain_play.viewers.controls import Controls, Lines
from rltrain_play.viewers.scenes import Scene, has_scene

_HOST = "127.0.0.1"
"""The page can pause and reset: it is for this machine's users alone."""


class Page:
    """Serves the page; anyone on this machine may open it, also several times."""

    def __init__(self, env: Any, controls: Controls, title: str, port: int) -> None:
        """Start the server, at the next free port if this one is taken."""
        self.controls, self._env = controls, env
        self._scene = Scene(env) if has_scene(env) else None
        viser = importlib.import_module("viser")
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # `place` has its address.
                self._server: Any = viser.ViserServer(
                    host=_HOST, port=port, label=title, verbose=False
                )
        except OSError as error:
            raise UsageError(f"--port {port}: the page cannot be served: {error}.") from error
        self._server.gui.configure_theme(show_logo=False, show_share_button=False)
        self._status = self._server.gui.add_markdown("")
        self._add_controls()
        if self._scene is not None:
            mjviser = importlib.import_module("mjviser")
            self._rendered: Any = mjviser.ViserMujocoScene(
                self._server, self._scene.model, num_envs=1
            )
            self._rendered.create_scene_gui(camera_distance=3.0 * self._scene.extent)

    @property
    def place(self) -> str:
        """The page's address."""
        return f"http://{_HOST}:{self._server.get_port()}"

    def is_open(self) -> bool:
        """Return that the page is served, whether anyone watches or not."""
        return True

    def show(self, lines: Lines) -> None:
        """Send the environments' state to the browsers."""
        rows = "\n".join(f"| {name} | {text} |" for name, text in lines)
        self._status.content = f"| | |\n|---|---|\n{rows}"
        if self._scene is not None:
            self._scene.update(self.controls.environment)
            self._rendered.update_from_mjdata(self._scene.data)
        else:
            self._server.scene.set_background_image(render_frame(self._env.render))

    def close(self) -> None:
        """Stop the server."""
        with contextlib.redirect_stdout(io.StringIO()):
            self._server.stop()

    def _add_controls(self) -> None:
        gui, controls = self._server.gui, self.controls
        pause = gui.add_button("Pause")

        def toggle(_: Any) -> None:
            controls.pause()
            pause.label = "Continue" if controls.paused else "Pause"

        pause.on_click(toggle)
        step = gui.add_button("Step", hint="One step, while it is paused")
        step.on_click(lambda _: controls.step())
        gui.add_button("Reset", hint="Begin new episodes").on_click(lambda _: controls.reset())
        if controls.num_envs > 1:
            slider = gui.add_slider("Environment", 0, controls.num_envs - 1, 1, 0)
            slider.on_update(lambda _: setattr(controls, "environment", int(slider.value)))
