"""Threads that pass a baton: exactly one rank runs, and it alone decides when another does."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from rltrain.testing.fake.rank_state import RankStates

__all__ = ["Abandoned", "Baton"]


GRACE = 2.0
"""Seconds that ranks get to end when the caller of `run` was interrupted."""


class Abandoned(BaseException):
    """Unwinds the ranks of a run that nobody waits for."""


class Baton:
    """Runs ranks as threads, of which one at a time goes on.

    Control changes hands only in `wait` and when a rank ends, always to the rank that has been
    ready longest, so that every run has the same order of events. With control the state of
    `RankStates` changes hands.
    """

    def __init__(self, ranks: int, states: RankStates, stuck: Callable[[], None]) -> None:
        """Prepare.

        Args:
            ranks: how many.
            states: what each rank has of its own.
            stuck: called when ranks are left but none is ready; it must make one ready.
        """
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
        """Let a rank that waits go on when its turn comes."""
        self._ready.append(rank)

    def wait(self, rank: int) -> None:
        """Hand the baton on; return when this rank has been made ready and its turn has come.

        Raises:
            Abandoned: the caller of `run` waits no longer.
        """
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
