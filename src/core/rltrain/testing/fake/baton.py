"""Threads that pass a baton: one rank runs, with its own copy of the process-global state."""

from __future__ import annotations

import importlib
import operator
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rltrain.run.seeding import Global, generators

GRACE = 2.0
"""Seconds that ranks get to end when the caller of `run` was interrupted."""


class Abandoned(BaseException):
    """Unwinds the ranks of a run that no one waits for."""


class Baton:
    """Runs ranks as threads, of which one runs at a time.

    Control changes hands only in `wait` and when a rank ends, always to the rank that has been
    ready longest, so that every run has the same order of events. With control the state of
    `RankStates` changes hands.
    """

    def __init__(self, ranks: int, states: RankStates, stuck: Callable[[], None]) -> None:
        """Prepare; `stuck` must make a rank ready: it is called when some are left and none is."""
        self._states = states
        self._stuck = stuck
        self._turns = [threading.Lock() for _ in range(ranks)]
        self._ready: deque[int] = deque(range(ranks))
        self._left = ranks
        self._all_ended = threading.Event()
        self._abandoned = False

    def run(self, work: Callable[[int], None]) -> None:
        """Call `work(rank)` for every rank; return when all have ended. `work` must not raise."""
        for turn in self._turns:
            turn.acquire()
        try:
            for rank in range(len(self._turns)):
                threading.Thread(
                    target=self._rank, args=(rank, work), name=f"rank {rank}", daemon=True
                ).start()
            self._pass_on()
            # Now and again awake: a signal may have reached another thread, which cannot handle it.
            while not self._all_ended.wait(1.0):
                pass
        except BaseException:
            # Ctrl-C, or a test's time limit: ranks end at their next collective.
            self._abandoned = True
            self._all_ended.wait(GRACE)
            raise

    def make_ready(self, rank: int) -> None:
        """Let a rank that waits continue when its turn comes."""
        self._ready.append(rank)

    def wait(self, rank: int) -> None:
        """Hand the baton on; return when this rank has been made ready and its turn has come."""
        if not self._abandoned:
            self._states.save(rank)
            self._pass_on()
            self._turns[rank].acquire()
        if self._abandoned:
            raise Abandoned
        self._states.restore(rank)

    def _rank(self, rank: int, work: Callable[[int], None]) -> None:
        self._turns[rank].acquire()
        self._states.restore(rank)
        work(rank)
        if not self._abandoned:
            self._states.save(rank)
        self._left -= 1
        self._pass_on()

    def _pass_on(self) -> None:
        if not self._left:
            self._all_ended.set()
            return
        if not self._ready:
            self._stuck()
        self._turns[self._ready.popleft()].release()


_State = tuple[dict[str, str], list[Any]]
"""The environment variables, and a value for each `Global`."""


class RankStates:
    """Gives every rank its own copy of process-global state.

    This covers `os.environ`; the global generators of `random`, numpy and torch, if they are loaded
    when the ranks start; and the attributes that were registered as rank-local.
    """

    def __init__(self, environs: Sequence[Mapping[str, str]], rank_local: Sequence[str]) -> None:
        """Start every rank with the caller's current state and the rank's own variables.

        What is local to ranks is named as "module:path.to.attribute".
        """
        self._globals = [*generators(), *(_attribute(name) for name in rank_local)]
        self._before = self._now = self._read()
        environ, values = self._before
        self._ranks = [(environ | dict(own), values) for own in environs]

    def save(self, rank: int) -> None:
        """Save the current state as a rank's."""
        self._ranks[rank] = self._now = self._read()

    def restore(self, rank: int) -> None:
        """Restore a rank's state. No code may have run since a state was saved."""
        self._write(self._ranks[rank])

    def leave(self) -> None:
        """Restore the state from before the ranks started."""
        self._now = self._read()
        self._write(self._before)

    def _read(self) -> _State:
        return dict(os.environ), [item.read() for item in self._globals]

    def _write(self, state: _State) -> None:
        environ, values = state
        now = self._now[0]
        for name in now.keys() - environ.keys():
            del os.environ[name]
        for name, value in environ.items() - now.items():
            os.environ[name] = value
        for item, value in zip(self._globals, values, strict=True):
            item.write(value)


def _attribute(name: str) -> Global:
    module, _, path = name.partition(":")
    owner, _, attribute = path.rpartition(".")
    found: Any = importlib.import_module(module)
    if owner:
        found = operator.attrgetter(owner)(found)
    getattr(found, attribute)  # Raise now if the name is wrong.
    return Global(lambda: getattr(found, attribute), lambda value: setattr(found, attribute, value))
