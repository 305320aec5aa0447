"""How long a rank may make no progress: the option `hang_timeout`."""

from __future__ import annotations

from rltrain_ranks.pulse import Pulse

__all__ = ["SECTIONS", "Patience", "sections", "shortest"]

SECTIONS = ("start", "step", "checkpoint", "end")
"""Sections of a run, each with a time-out of its own."""

_LONG = 1800.0
"""Seconds without progress outside of iterations, unless the option says otherwise: simulators
load, and programs compile, for minutes."""

_SHORTEST = 300.0
"""The shortest default time-out, in seconds: something may compile again in a later iteration."""

_TIMES = 10.0
"""The default time-out, in times of the longest iteration so far."""


def sections(value: float | str | None) -> dict[str, float]:
    """Return the seconds of each section that the option `hang_timeout` gives."""
    if not isinstance(value, str):
        return {} if value is None else {"step": value}
    parts = (part.partition("=") for part in value.split(","))
    return {section.strip(): float(amount) for section, _, amount in parts}


class Patience:
    """How long a rank may make no progress."""

    def __init__(self, timeout: float | str | None) -> None:
        """Start with a fixed time-out, or none.

        Args:
            timeout: the option `hang_timeout`: seconds within an iteration, 0 for ever; None
                follows the longest iteration. As a text, the seconds of each section of a run.
        """
        self._given = sections(timeout)
        self._longest = 0.0
        self._iteration = 0
        self._since: float | None = None
        """When the iteration was seen to begin."""

    def note(self, pulse: Pulse, now: float) -> None:
        """Note how far the run is."""
        if pulse.phase == "starting":
            return
        if self._since is not None and pulse.iteration != self._iteration:
            self._longest = max(self._longest, now - self._since)
            self._since = None
        if self._since is None:
            self._iteration, self._since = pulse.iteration, now

    def restart(self) -> None:
        """Note that the ranks begin again."""
        self._since = None

    def seconds(self, pulse: Pulse) -> float:
        """Return for how long a rank may stay as it is."""
        section = _section(pulse)
        step = self._given.get("step", max(_SHORTEST, _TIMES * self._longest))
        usual = step if section == "step" or step == 0 else max(_LONG, step)
        return self._given.get(section, usual) or float("inf")

    def option(self, pulse: Pulse) -> str:
        """Return the option that says so."""
        return f"--hang-timeout {_section(pulse)}={self.seconds(pulse):.0f}"


def _section(pulse: Pulse) -> str:
    """Return the section of its run that a rank is in."""
    if pulse.phase == "saving a checkpoint":
        return "checkpoint"
    if pulse.phase in ("ending", "ended"):
        return "end"
    if pulse.phase == "playing episodes":
        return "step"
    # Until it has done an iteration since it was started, programs compile.
    return "start" if pulse.phase == "starting" or not pulse.iteration else "step"


def shortest(timeout: float | str | None) -> float:
    """Return the shortest time-out, by the option `hang_timeout`."""
    return min([_SHORTEST, *filter(None, sections(timeout).values())])
