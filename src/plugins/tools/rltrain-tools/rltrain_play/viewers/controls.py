"""What the user of a viewer asks for, and which viewers work here."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError

if TYPE_CHECKING:
    from rltrain.specs import SuiteSpec
    from rltrain_play.viewers.page import Page
    from rltrain_play.viewers.scenes import MujocoWindow

VIEWERS = ("auto", "native", "viser", "none")
INSTALL = 'pip install "rltrain[viewer]"'

Lines = Sequence[tuple[str, str]]
"""What is played, as labels and texts."""


@dataclass
class Controls:
    """What the user of a viewer asks for. Its threads set it; the loop that plays reads it."""

    num_envs: int = 1
    """How many environments can be shown."""
    paused: bool = False
    environment: int = 0
    """Which one is shown."""
    _step: bool = False
    _reset: bool = False

    def pause(self) -> None:
        """Pause, or continue."""
        self.paused = not self.paused

    def step(self) -> None:
        """Take one step during a pause."""
        self._step = True

    def reset(self) -> None:
        """Begin new episodes."""
        self._reset = True

    def show_next(self, by: int) -> None:
        """Show the next environment, or the previous one."""
        self.environment = (self.environment + by) % self.num_envs

    def may_step(self) -> bool:
        """Return whether to take a step now, which uses up one that was asked for."""
        asked, self._step = self._step, False
        return asked or not self.paused

    def take_reset(self) -> bool:
        """Return whether new episodes were asked for since the last call."""
        asked, self._reset = self._reset, False
        return asked


def usable_viewers(
    asked: str, suite: SuiteSpec, environ: Mapping[str, str]
) -> tuple[list[str], str]:
    """Return the viewers that work here, the best first; for "auto" also why there are none.

    Raises:
        UsageError: the one that was asked for does not work here.
    """
    missing: dict[str, str] = {}
    if not environ.get("DISPLAY") and not environ.get("WAYLAND_DISPLAY"):
        missing["native"] = "there is no display here (DISPLAY and WAYLAND_DISPLAY are not set)"
    if importlib.util.find_spec("viser") is None:
        missing["viser"] = f"viser is not installed: {INSTALL}"
    if not suite.renders and not suite.mujoco_scenes:
        text = f"the suite {suite.name} does not render its environments"
        missing = {"native": text, "viser": text}
    wanted = {"auto": ["native", "viser"], "none": []}.get(asked, [asked])
    found = [name for name in wanted if name not in missing]
    if found or not wanted:
        return found, ""
    reason = ", and ".join(dict.fromkeys(missing[name] for name in wanted))
    if asked == "auto":
        return [], f"no viewer: {reason}."
    others = [name for name in ("native", "viser", "none") if name not in missing]
    raise UsageError(f"--viewer {asked}: {reason}. Or give --viewer {' or '.join(others)}.")


def open_viewer(
    names: Sequence[str], env: Any, title: str, port: int
) -> Page | MujocoWindow | None:
    """Open the first of these viewers that can show environments, which have been reset; or none.

    A viewer changes neither them nor their random numbers.
    """
    from rltrain_play.viewers.scenes import MujocoWindow, has_scene

    scene = has_scene(env)
    if "native" in names and scene:
        return MujocoWindow(env, Controls(env.num_envs), title)
    if "viser" in names:
        from rltrain_play.viewers.page import Page

        return Page(env, Controls(env.num_envs if scene else 1), title, port)
    return None
