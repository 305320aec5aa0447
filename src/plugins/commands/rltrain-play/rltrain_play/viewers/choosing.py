"""Which viewer: the one that was asked for, or the best that works here."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError
from rltrain_play.viewers.controls import Controls, Viewer
from rltrain_play.viewers.scenes import has_scene

if TYPE_CHECKING:
    from rltrain.specs import SuiteSpec

VIEWERS = ("auto", "native", "viser", "none")
_INSTALL = 'pip install "rltrain[viewer]"'


def choose_viewer(asked: str, suite: SuiteSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the viewer to use, and for "auto" a line that says why there is none.

    Args:
        asked: one of `VIEWERS`.
        suite: makes the environments.
        environ: the environment variables.
    """
    if asked == "none":
        return "none", ""
    shows = suite.renders or suite.mujoco_scenes
    display = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    page = importlib.util.find_spec("viser") is not None
    reason = ""
    if not shows:
        reason = f"the suite {suite.name} does not render its environments"
    elif asked == "native" and not display:
        reason = "there is no display here (DISPLAY and WAYLAND_DISPLAY are not set)"
    elif asked == "viser" and not page:
        reason = f"viser is not installed: {_INSTALL}"
    elif asked == "auto" and not display and not page:
        reason = f"there is no display here, and viser is not installed: {_INSTALL}"
    if reason and asked == "auto":
        return "none", f"no viewer: {reason}."
    if reason:
        others = "none" if not shows else "viser or none" if asked == "native" else "native or none"
        raise UsageError(f"--viewer {asked}: {reason}. Or give --viewer {others}.")
    if asked != "auto":
        return asked, ""
    return ("native" if display else "viser"), ""


def open_viewer(name: str, env: Any, *, title: str, port: int, real_time: bool) -> Viewer:
    """Open a viewer.

    Args:
        name: "native" or "viser".
        env: the environments, which have been reset.
        title: what is played.
        port: of a page.
        real_time: whether to begin at the pace of the simulation.
    """
    scene = has_scene(env)
    # Frames show the first environment only.
    controls = Controls(env.num_envs if scene else 1, real_time)
    if name == "viser":
        from rltrain_play.viewers.page import Page

        return Page(env, controls, title, port)
    if scene:
        from rltrain_play.viewers.mujoco_window import MujocoWindow

        return MujocoWindow(env, controls, title)
    from rltrain_play.viewers.frame_window import FrameWindow

    return FrameWindow(env, controls, title)
