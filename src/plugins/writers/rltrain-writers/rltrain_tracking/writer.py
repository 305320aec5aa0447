"""A writer that sends a run to a tracker in a thread: training never waits for it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.launch import say
from rltrain.options import hide_in_text
from rltrain.records import CheckpointSaved, Media, Record, RunEnded, RunStarted, Scalars
from rltrain.runs import Run
from rltrain_tracking.tracker import Refused, Row, Tracker, metrics_of

LAST_WAIT = 5.0
"""Seconds that the end of a run waits for a tracker that does not answer."""
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


class TrackerWriter:
    """Gives a run to a tracker. Whatever the tracker does, training continues as fast.

    Records wait in a queue for a thread, which sends them. What cannot be sent is tried again
    later, after one warning. The end of the run waits for the rest, but not for long.
    """

    def __init__(
        self, name: str, tracker: Tracker, *, checkpoints: str, finish_timeout: float
    ) -> None:
        """Prepare; nothing is sent before the run starts.

        Args:
            name: of the tracker, for messages.
            tracker: is called in the thread only.
            checkpoints: one of `CHECKPOINTS`.
            finish_timeout: seconds that the end of the run waits until everything is sent.
        """
        self._name, self._tracker = name, tracker
        self._checkpoints, self._finish_timeout = checkpoints, finish_timeout
        self._queue: deque[Row | tuple[Media | CheckpointSaved, int]] = deque()
        """What the tracker has not taken: metrics, and files with the frames of their time."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ended: RunEnded | None = None
        self._frames = self._lost = 0
        self._warnings: deque[str] = deque()
        self._failure = self._last_failure = ""
        self._called: float | None = None
        self._closing = self._complete = self._has_warned = False

    @hookimpl
    def rltrain_write(self, record: Record) -> None:
        """Take a record, and return at once."""
        if isinstance(record, RunStarted):
            self._run_dir, self._frames = Path(record.run_dir), record.frames
            self._thread = threading.Thread(target=self._work, args=(record,), daemon=True)
            self._thread.start()
        if self._thread is None:
            return
        if isinstance(record, Scalars):
            self._frames = record.frames
            self._put(Row(record.frames, time.time(), metrics_of(record)))
        elif isinstance(record, Media) or (
            isinstance(record, CheckpointSaved) and self._checkpoints == "all"
        ):
            self._put((record, self._frames))
        elif isinstance(record, RunEnded):
            self._ended = record
            if self._checkpoints in ("last", "best") and (chosen := self._chosen()):
                self._put((chosen, self._frames))
        self._report()

    @hookimpl
    def rltrain_shutdown(self) -> None:
        """Wait until everything is sent, or until it is clear that it will not be."""
        if self._thread is None:
            return
        timeout = LAST_WAIT if self._current_failure() else self._finish_timeout
        with self._changed:
            self._closing = self._has_warned = True
            self._changed.notify()
        self._thread.join(timeout)
        self._thread = None
        self._report()
        why = self._no_answer(0) or self._last_failure
        if missing := self._lost + len(self._queue):
            self._say(f"{missing} records were not sent ({why})")
        elif not self._complete:
            self._say(f"the end of the run was not sent ({why})")

    def _put(self, item: Row | tuple[Media | CheckpointSaved, int]) -> None:
        with self._changed:
            if len(self._queue) < HELD:
                self._queue.append(item)
                self._changed.notify()
            else:
                self._lost += 1
                self._last_failure = self._last_failure or "it is slower than the run"

    def _chosen(self) -> CheckpointSaved | None:
        """Return the run's last checkpoint, or its best: also of ranks that failed before."""
        run = Run(self._run_dir, warn=lambda text: None)
        found = (self._checkpoints == "best" and run.find("best")) or run.find()
        return CheckpointSaved(str(found), found.iteration or 0) if found else None

    def _current_failure(self) -> str:
        return self._failure or self._no_answer(PATIENCE)

    def _no_answer(self, patience: float) -> str:
        called = self._called
        if called is None or time.monotonic() - called < patience:
            return ""
        return f"no answer for {time.monotonic() - called:.0f} s"

    def _report(self) -> None:
        """Print what is new; not from the thread, which would disturb a live view."""
        while self._warnings:
            self._say(self._warnings.popleft())
        if (failure := self._current_failure()) and not self._has_warned:
            self._has_warned = True
            self._say(f"{failure}: training continues, and what is recorded is sent later")

    def _say(self, text: str) -> None:
        say(f"{self._name}: {hide_in_text(text)}")

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

    def _next(self) -> list[Any]:
        """Wait for what can be sent in one call; nothing if there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, PAUSE)
            self._changed.wait_for(lambda: self._queue or self._closing)
            rows = takewhile(lambda item: isinstance(item, Row), self._queue)
            return list(islice(rows, AT_ONCE)) or list(islice(self._queue, 1))

    def _send(self, items: list[Any]) -> bool:
        """Send rows, or a file; return whether to continue."""
        try:
            if isinstance(items[0], Row):
                return self._attempt(lambda: self._tracker.log(items))
            self._lost += not self._attempt(lambda: self._send_file(*items[0]), FILE_TRIES)
        except Refused:
            self._lost += len(items)
        return True

    def _send_file(self, record: Media | CheckpointSaved, frames: int) -> None:
        if isinstance(record, Media):
            self._tracker.log_media(record, frames)
        else:
            self._tracker.log_checkpoint(record, frames)

    def _attempt(self, call: Callable[[], str | None], tries: int | None = None) -> bool:
        """Make a call until it succeeds; once more when the run ends. Return whether it did."""
        delay, longest = DELAYS
        while True:
            closing = self._closing
            self._called = time.monotonic()
            try:
                warning = call()
            except Exception as error:
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                self._failure = self._last_failure = reason[:300].rstrip(".:")
                if isinstance(error, Refused):
                    raise
            else:
                self._failure = ""
                if warning:
                    self._warnings.append(warning)
                return True
            finally:
                self._called = None
            tries = None if tries is None else tries - 1
            if closing or tries == 0:
                return False
            with self._changed:
                self._changed.wait_for(lambda: self._closing, delay)
            delay = min(2 * delay, longest)
