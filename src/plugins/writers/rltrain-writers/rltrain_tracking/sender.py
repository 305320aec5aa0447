"""The thread that sends a run to a tracker, and tries again what failed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, takewhile

from rltrain.records import CheckpointSaved, Media, RunEnded, RunStarted
from rltrain_tracking.tracker import Refused, Row, Tracker

HELD = 10_000
"""Records that are held while the tracker does not take them. Later ones are lost."""
AT_ONCE = 100
"""Rows that are given to the tracker in one call."""
PAUSE = 1.0
"""Seconds between two calls, so that the rows of short iterations go together."""
PATIENCE = 60.0
"""Seconds after which a call that has not returned counts as failed, for the user."""
DELAYS = (5.0, 300.0)
"""Seconds until a call that failed is made again: at first, and at most."""
FILE_TRIES = 5
"""How often a file is tried. It is in the run folder, whatever the tracker says."""


@dataclass(frozen=True)
class File:
    """A file to send."""

    record: Media | CheckpointSaved
    frames: int


class Sender:
    """Holds what is to be sent until the tracker has taken it.

    Attributes:
        lost: how many records will not be sent.
        warnings: of the tracker, for the user.
    """

    def __init__(self, tracker: Tracker, started: RunStarted) -> None:
        """Begin to send."""
        self._tracker = tracker
        self.lost = 0
        self.warnings: deque[str] = deque()
        self._queue: deque[Row | File] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._ended: RunEnded | None = None
        self._failure = self._last_failure = ""
        self._called: float | None = None
        self._complete = False
        self._thread = threading.Thread(target=self._work, args=(started,), daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str:
        """Why the tracker takes nothing now; "" if it does."""
        return self._failure or self._no_answer(PATIENCE)

    def put(self, item: Row | File) -> None:
        """Take something to send, and return at once."""
        with self._changed:
            if len(self._queue) < HELD:
                self._queue.append(item)
                self._changed.notify()
            else:
                self.lost += 1
                self._last_failure = self._last_failure or "it is slower than the run"

    def close(self, ended: RunEnded | None, timeout: float) -> str:
        """Wait until everything is sent, or until it is clear that it will not be.

        Args:
            ended: how the run has ended, to be sent last.
            timeout: seconds to wait at most.

        Returns:
            What was not sent, and why; "" if everything was.
        """
        with self._changed:
            self._ended, self._closing = ended, True
            self._changed.notify()
        self._thread.join(timeout)
        why = self._no_answer(0) or self._last_failure
        if missing := self.lost + len(self._queue):
            return f"{missing} records were not sent ({why})"
        return "" if self._complete else f"the end of the run was not sent ({why})"

    def _no_answer(self, patience: float) -> str:
        called = self._called
        if called is None or time.monotonic() - called < patience:
            return ""
        return f"no answer for {time.monotonic() - called:.0f} s"

    # What follows runs in the thread.

    def _work(self, started: RunStarted) -> None:
        with contextlib.suppress(Refused):
            if not self._attempt(lambda: self._tracker.connect(started)):
                return
            while items := self._next():
                if not self._send(items):
                    return
                with self._changed:
                    for _ in items:
                        self._queue.popleft()
            ended = self._ended
            self._complete = ended is None or self._attempt(lambda: self._tracker.finish(ended))

    def _next(self) -> list[Row | File]:
        """Wait for what can be sent in one call; nothing if there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, PAUSE)
            self._changed.wait_for(lambda: self._queue or self._closing)
            rows = takewhile(lambda item: isinstance(item, Row), self._queue)
            return list(islice(rows, AT_ONCE)) or list(islice(self._queue, 1))

    def _send(self, items: list[Row | File]) -> bool:
        """Send rows, or a file; return whether to go on."""
        rows = [item for item in items if isinstance(item, Row)]
        try:
            if rows:
                return self._attempt(lambda: self._tracker.log(rows))
            self.lost += not self._attempt(lambda: self._send_file(items[0]), FILE_TRIES)
        except Refused:
            self.lost += len(items)
        return True

    def _send_file(self, item: Row | File) -> None:
        assert isinstance(item, File)
        if isinstance(item.record, Media):
            self._tracker.log_media(item.record, item.frames)
        else:
            self._tracker.log_checkpoint(item.record, item.frames)

    def _attempt(self, call: Callable[[], str | None], tries: int | None = None) -> bool:
        """Make a call until it succeeds; once more when the run ends. Return whether it did.

        Args:
            call: returns a warning for the user, or None.
            tries: how often at most.
        """
        delay, longest = DELAYS
        while True:
            closing = self._closing
            self._called = time.monotonic()
            try:
                warning = call()
            except Exception as error:
                self._failure = self._last_failure = _reason(error)
                if isinstance(error, Refused):
                    raise
            else:
                self._failure = ""
                if warning:
                    self.warnings.append(warning)
                return True
            finally:
                self._called = None
            tries = None if tries is None else tries - 1
            if closing or tries == 0:
                return False
            with self._changed:
                self._changed.wait_for(lambda: self._closing, delay)
            delay = min(2 * delay, longest)


def _reason(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300].rstrip(".:")
