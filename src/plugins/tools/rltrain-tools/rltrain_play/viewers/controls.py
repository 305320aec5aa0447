"""What a viewer shows, and what its user asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

HELP = (
    "a window; keys: space (pause), right (one step), backspace (reset), -/= (speed), "
    "t (real time), ,/. (environment)"
)
"""A window's place, and its keys."""

_SPEEDS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)


@dataclass
class Controls:
    """What the user of a viewer asks for. Its threads set it; the loop that plays reads it."""

    num_envs: int
    """How many environments there are to look at."""
    real_time: bool = True
    """Whether steps take as long as they do in the simulation, or as short as possible."""
    paused: bool = False
    speed: float = 1.0
    """With `real_time`, how many times as fast."""
    environment: int = 0
    """Which one is looked at."""
    _steps: int = 0
    _reset: bool = False

    def pause(self) -> None:
        """Pause, or go on."""
        self.paused = not self.paused

    def step(self) -> None:
        """Take one step; for a pause."""
        self._steps += 1

    def reset(self) -> None:
        """Begin new episodes."""
        self._reset = True

    def faster(self, by: int) -> None:
        """Choose the next speed, or the one before: `by` is 1 or -1."""
        index = _SPEEDS.index(self.speed) + by
        self.speed = _SPEEDS[max(0, min(index, len(_SPEEDS) - 1))]

    def look(self, by: int) -> None:
        """Look at the next environment, or at the one before."""
        self.environment = (self.environment + by) % self.num_envs

    def press(self, key: str) -> None:
        """Do what a key of a window is for; see `HELP`."""
        match key:
            case "space":
                self.pause()
            case "right":
                self.step()
            case "backspace":
                self.reset()
            case "=" | "-":
                self.faster(1 if key == "=" else -1)
            case "t":
                self.real_time = not self.real_time
            case "." | ",":
                self.look(1 if key == "." else -1)

    def may_step(self) -> bool:
        """Return whether to take a step now, which uses up one that was asked for."""
        if not self.paused:
            self._steps = 0
            return True
        asked = self._steps > 0
        self._steps -= asked
        return asked

    def take_reset(self) -> bool:
        """Return whether new episodes were asked for since the last call."""
        asked, self._reset = self._reset, False
        return asked


@dataclass(frozen=True)
class Status:
    """What is played, in words and numbers."""

    agent: str
    """Such as "model_40.pt, iteration 40"."""
    step: int
    environment: int
    episode_return: float
    """Of the running episode of the environment that is looked at."""
    length: int
    """Of the same, in steps."""
    episodes: int
    """How many have ended, of all environments."""
    mean_return: float | None
    """Of these."""
    pace: str
    """Such as "paused" or "2x real time"."""

    def lines(self) -> list[tuple[str, str]]:
        """Return a label and a text for each thing to show."""
        mean = "" if self.mean_return is None else f", mean return {self.mean_return:.2f}"
        return [
            ("agent", self.agent),
            ("environment", str(self.environment)),
            ("return", f"{self.episode_return:.2f}"),
            ("length", str(self.length)),
            ("finished", f"{self.episodes}{mean}"),
            ("step", f"{self.step}, {self.pace}"),
        ]


class Viewer(Protocol):
    """Shows environments. It changes neither them nor their random numbers."""

    controls: Controls

    @property
    def place(self) -> str:
        """Where to look, such as the address of a page."""
        ...

    def is_open(self) -> bool:
        """Return whether somebody can look; a user may close a window."""
        ...

    def show(self, status: Status) -> None:
        """Show the environments as they are now."""
        ...

    def close(self) -> None:
        """Close the window or the page."""
        ...
