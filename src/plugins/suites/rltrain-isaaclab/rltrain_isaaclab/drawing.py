"""What shows Isaac Lab 3's environments: its visualizers, and where the frames of videos come from.

Isaac Lab 2 draws what its app's camera sees. In Isaac Lab 3 a visualizer draws, which the task's
configuration lists, with a window or without one; or a camera of the task has seen it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

from rltrain.errors import UsageError
from rltrain_isaaclab import compat

OPTIONS = ("viz", "video_source")
"""Options that are not part of the configuration: the visualizers, as of Isaac Lab's --viz; and
where the frames of videos come from, as in its `VideoRecorderCfg.source`."""

_CONFIGURATIONS = {
    "kit": "isaaclab_visualizers.kit:KitVisualizerCfg",
    "newton_gl": "isaaclab_visualizers.newton:NewtonGLVisualizerCfg",
    "newton_rtx": "isaaclab_visualizers.newton:NewtonRTXVisualizerCfg",
    "rerun": "isaaclab_visualizers.rerun:RerunVisualizerCfg",
    "viser": "isaaclab_visualizers.viser:ViserVisualizerCfg",
}
"""Of each visualizer."""

_PACKAGES = {
    "kit": {"isaacsim": "isaacsim"},
    "newton_gl": {"pyglet": "pyglet", "imgui_bundle": "imgui-bundle"},
    "newton_rtx": {"ovrtx": "ovrtx"},
    "rerun": {"rerun": "rerun-sdk"},
    "viser": {"viser": "viser"},
}
"""What each needs: modules, with the names by which pip installs them."""

_DRAWS = ("kit", "newton_gl", "newton_rtx")
"""Those that return frames, and open a window where there is a display."""

_PAGES = {"viser": "port", "rerun": "web_port"}
"""Those that show a page, and their settings for its port. Isaac Lab lets all machines see it; here
it is on the loopback interface, because it has no password."""

_OPEN = ("rerun",)
"""Pages that all machines can see nevertheless: rerun's servers take no interface."""

_ALIASES = {"newton": "newton_gl"}

_SIZE = {"window_width": 1280, "window_height": 720}
"""Of frames, in pixels."""


def check(options: Mapping[str, Any]) -> list[str]:
    """Return the visualizers that the user's `env.` options name.

    Raises:
        UsageError: one is unknown, or cannot work here; or the source of frames is none.
    """
    given, source = options.get("viz"), options.get("video_source")
    if source is not None and str(source).partition(":")[0] not in ("visualizer", "sensor"):
        raise UsageError(
            f"env.video_source={source!r}: must be visualizer:TYPE, such as visualizer:newton_gl, "
            "or sensor:NAME, a camera of the task."
        )
    names = given if isinstance(given, list) else str(given or "none").split(",")
    names = [_ALIASES.get(name, name) for name in names if name != "none"]
    for name in names:
        if name not in _CONFIGURATIONS:
            known = ", ".join(_CONFIGURATIONS)
            raise UsageError(f"env.viz={name}: must be one or more of {known}; or none.")
        _require(name, f"env.viz={name}")
    return names


def prepare(cfg: Any, visualizers: list[str], source: str | None, windows: bool) -> None:
    """Have visualizers in a task's configuration.

    Args:
        cfg: the configuration, changed in place.
        visualizers: those that the user names.
        source: where frames come from, or None if there are none.
        windows: whether those that are there already may stay.
    """
    if not hasattr(cfg.sim, "visualizer_cfgs"):  # Isaac Lab 2
        return
    cfg.sim.visualizer_cfgs = _listed(cfg) if windows else []
    for name in visualizers:
        shown = _add(cfg, name, **({"bind_address": "127.0.0.1"} if name in _PAGES else {}))
        if name in _PAGES:
            port = getattr(shown, _PAGES[name])
            seen = "for all who reach this machine" if name in _OPEN else "for this machine"
            print(f"env.viz={name}: http://127.0.0.1:{port}, {seen}", flush=True)
    kind, name, _ = _parts(source or "")
    if kind == "visualizer":
        _require(name, "--video, or a viewer that shows frames")
        _add(cfg, name, headless=True, **_SIZE)


def lacking(visualizer: str) -> str | None:
    """Return what this machine lacks for a visualizer, or None.

    Args:
        visualizer: its type, such as "viser".
    """
    needs = _PACKAGES.get(visualizer, {})
    missing = [name for module, name in needs.items() if importlib.util.find_spec(module) is None]
    if missing:
        return f"{visualizer} needs {' and '.join(missing)}, which is not installed"
    return None


def lacking_for_frames(cfg: Any, given: str | None) -> str | None:
    """Return what this machine lacks for frames of a task, or None.

    Args:
        cfg: the task's configuration.
        given: the option `env.video_source`.
    """
    if not hasattr(cfg.sim, "visualizer_cfgs"):  # Isaac Lab 2
        return None
    kind, name, _ = _parts(source(cfg, given, compat.needs_kit(cfg)))
    reason = lacking(name) if kind == "visualizer" else None
    return reason and f"Isaac Lab's visualizer {reason}"


def source(cfg: Any, given: str | None, needs_kit: bool) -> str:
    """Return where frames come from, as Isaac Lab writes it: "visualizer:TYPE" or "sensor:NAME".

    As in Isaac Lab, that is what the user names, or the task's first video recorder; or else a
    visualizer: one that the task has, Kit's where Isaac Sim runs, or Newton's.

    Args:
        cfg: the task's configuration.
        given: the option `env.video_source`.
        needs_kit: whether the task needs Isaac Sim.
    """
    recorders = getattr(cfg, "video_recorders", None)
    given = given or (recorders[0].source if recorders else "visualizer")
    kind, name, rest = _parts(given)
    if kind == "visualizer" and not name:
        drawing = (each.visualizer_type for each in _listed(cfg))
        name = next(
            (name for name in drawing if name in _DRAWS), "kit" if needs_kit else "newton_gl"
        )
    return ":".join(filter(None, (kind, name, rest)))


def _parts(source: str) -> tuple[str, str, str]:
    kind, name, rest = (*source.split(":", 2), "", "")[:3]
    return kind, _ALIASES.get(name, name), rest


def _require(visualizer: str, asked: str) -> None:
    reason = lacking(visualizer)
    if reason is not None:
        raise UsageError(f"{asked}: Isaac Lab's visualizer {reason}.")


def _add(cfg: Any, visualizer: str, **settings: Any) -> Any:
    """Return a configuration's visualizer, added with settings of its own if it has none."""
    listed = _listed(cfg)
    for each in listed:
        if each.visualizer_type == visualizer:
            return each
    module, _, kind = _CONFIGURATIONS[visualizer].partition(":")
    made = getattr(importlib.import_module(module), kind)()
    for name, value in settings.items():
        setattr(made, name, value)
    cfg.sim.visualizer_cfgs = [*listed, made]
    return made


def _listed(cfg: Any) -> list[Any]:
    listed = cfg.sim.visualizer_cfgs or []
    return list(listed) if isinstance(listed, (list, tuple)) else [listed]


class Frames:
    """Returns frames of an environment."""

    def __init__(self, env: Any, source: str) -> None:
        """Find the source."""
        kind, name, data = _parts(source)
        self._env, self._data = env, data or "rgb"
        self._camera: Any = None
        self._visualizer: Any = None
        if kind == "sensor":
            self._camera = env.scene.sensors.get(name)
            known = ", ".join(sorted(env.scene.sensors)) or "none"
        else:
            shown = {each.cfg.visualizer_type: each for each in env.sim.visualizers}
            self._visualizer, known = shown.get(name), ", ".join(shown) or "none"
        if self._camera is None and self._visualizer is None:
            raise UsageError(f"{source}: frames cannot come from it. The task has: {known}.")

    def __call__(self) -> Any:
        """Return a frame, uint8 of shape (height, width, 3)."""
        if self._visualizer is None:
            return self._seen()
        sim = self._env.sim
        if not sim.is_rendering:  # Else each step has done so.
            sim.forward()
            if self._visualizer.supports_markers():
                sim.vis_marker_registry.dispatch_callbacks()
        return self._visualizer.render_rgb_array()

    def _seen(self) -> Any:
        """Return what the camera of the first environment sees."""
        colors = importlib.import_module("isaaclab.envs.utils.camera_colorizer")
        outputs = self._camera.data.output
        image = outputs[colors.sensor_key_for_gt_type(self._data, frozenset(outputs))]
        return colors.CameraFrameColorizer.colorize(getattr(image, "torch", image)[0], self._data)
