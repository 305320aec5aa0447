"""A writer that sends a run to a tracker: training never waits for it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.launch import say
from rltrain.options import hide_in_text
from rltrain.records import CheckpointSaved, Media, Record, RunEnded, RunStarted, Scalars
from rltrain.runs import saved_checkpoints
from rltrain_tracking.run import metrics_of
from rltrain_tracking.sender import File, Sender
from rltrain_tracking.tracker import Row, Tracker

LAST_WAIT = 5.0
"""Seconds that the end of a run waits for a tracker that does not answer."""


class TrackerWriter:
    """Gives a run to a tracker. Whatever the tracker does, training goes on as fast.

    Records wait in a queue for a thread, which sends them. What cannot be sent is tried again
    later, and the user is told once. The end of the run waits for the rest, but not for long.
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
        self._sender: Sender | None = None
        self._ended: RunEnded | None = None
        self._frames = 0
        self._has_warned = False

    @hookimpl
    def rltrain_write(self, record: Record) -> None:
        """Take a record, and return at once."""
        if isinstance(record, RunStarted):
            self._run_dir, self._frames = Path(record.run_dir), record.frames
            self._sender = Sender(self._tracker, record)
        elif self._sender is not None:
            self._take(record, self._sender)
            self._tell(self._sender)

    @hookimpl
    def rltrain_shutdown(self) -> None:
        """Wait until everything is sent, or until it is clear that it will not be."""
        if self._sender is None:
            return
        sender, self._sender = self._sender, None
        missing = sender.close(self._ended, LAST_WAIT if sender.failure else self._finish_timeout)
        self._pass_on(sender)
        if missing:
            self._say(missing)

    def _take(self, record: Record, sender: Sender) -> None:
        if isinstance(record, Scalars):
            self._frames = record.frames
            sender.put(Row(record.frames, time.time(), metrics_of(record)))
        elif isinstance(record, Media):
            sender.put(File(record, self._frames))
        elif isinstance(record, CheckpointSaved):
            if self._checkpoints == "all":
                sender.put(File(record, self._frames))
        elif isinstance(record, RunEnded):
            self._ended = record
            if self._checkpoints in ("last", "best") and (chosen := self._chosen()):
                sender.put(File(chosen, self._frames))

    def _chosen(self) -> CheckpointSaved | None:
        """Return the run's last checkpoint, or its best: also of ranks that failed before."""
        entries: list[dict[str, Any]] = []
        with contextlib.suppress(OSError):  # The folder may have been removed.
            entries = saved_checkpoints(self._run_dir, lambda text: None)
        if self._checkpoints == "best":
            rated = [entry for entry in entries if entry["episode_return"] is not None]
            entries = sorted(rated, key=lambda entry: float(entry["episode_return"])) or entries
        if not entries:
            return None
        path = self._run_dir / "checkpoints" / entries[-1]["name"]
        return CheckpointSaved(str(path), int(entries[-1]["iteration"] or 0))

    def _tell(self, sender: Sender) -> None:
        """Tell the user what is new; not from the thread, which would disturb a live view."""
        self._pass_on(sender)
        if (failure := sender.failure) and not self._has_warned:
            self._has_warned = True
            self._say(f"{failure}: training goes on, and what is recorded is sent later")

    def _pass_on(self, sender: Sender) -> None:
        while sender.warnings:
            self._say(sender.warnings.popleft())

    def _say(self, text: str) -> None:
        say(f"{self._name}: {hide_in_text(text)}")
