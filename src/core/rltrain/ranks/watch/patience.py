"""How long a rank may make no progress, or the user's code before any rank: `hang_timeout`."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping

from rltrain.ranks.pulse import Pulse
from rltrain.ranks.stacks import Frame

SECTIONS = ("start", "step", "checkpoint", "end")
"""Sections of a run, each with a time-out of its own."""

_LONG = 1800.0
"""Seconds without progress outside of iterations, unless the option says otherwise: simulators
load, and programs compile, for minutes."""

_SHORTEST = 300.0
"""The shortest default time-out, in seconds: something may compile again in a later iteration."""

_TIMES = 10.0
"""The default time-out, in times of the longest iteration so far."""

_STARTING = Pulse(0, 0, 0, 0, 0, "starting", waiting=False, call="")


class Patience:
    """How long a rank may make no progress."""

    def __init__(self, given: Mapping[str, float] | None) -> None:
        """Take the option `hang_timeout`: seconds by section, 0 for ever; usual ones for others."""
        self._given = given or {}
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


def shortest(given: Mapping[str, float] | None) -> float:
    """Return the shortest time-out, by the option `hang_timeout`."""
    return min([_SHORTEST, *filter(None, (given or {}).values())])


@contextlib.contextmanager
def bounded(what: str, given: Mapping[str, float] | None) -> Iterator[None]:
    """End this process if this thread stays in the context for longer than a run may start.

    `what` it does there, and where it stands, is said.
    """
    patience = Patience(given)
    seconds = patience.seconds(_STARTING)
    if math.isinf(seconds):
        yield
        return
    bound = f"{seconds:.0f} s ({patience.option(_STARTING)})"
    text = f"rltrain: {what} did not end within {bound}"
    timer = threading.Timer(seconds, _end, (text, threading.get_ident()))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(text: str, thread: int) -> None:
    walked = traceback.walk_stack(sys._current_frames()[thread])
    frames = [Frame(each.f_code.co_filename, line, each.f_code.co_name) for each, line in walked]
    where = next((frame for frame in frames if frame.is_of_the_user), frames[0])
    print(f"{text}: it stands at {where}.", file=sys.stderr, flush=True)
    os._exit(1)
