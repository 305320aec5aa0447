"""The launchers of several nodes stay connected while their ranks run.

A node that fails, or that nobody hears of any more, ends the run on all nodes, and each says which
one it was. Without this, gloo and NCCL wait for many minutes when a link is cut, and never know
which machine it was.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from rltrain.errors import PeerLost, RankFailed, RltrainError, UsageError
from rltrain.launch import Notes, ended_by_signal
from rltrain.nodes.line import Line, Refused
from rltrain.nodes.meeting import gather
from rltrain.nodes.messages import Member

_CAUSE_TIMEOUT = 10.0
"""Seconds to wait for a failed node's own words after a rank has lost its peer there."""

_OWN_WORDS_TIMEOUT = 3.0
"""Seconds in which this node's ranks may fail by themselves after another node has failed: where
all of them refuse an option, each node prints why, and ends with the status of a usage error."""

_PARTING_TIMEOUT = 15.0
"""Seconds in which, after a failure, the other nodes must have ended their ranks too."""

_BEAT, _SILENCE = 5.0, 30.0
"""Seconds between two signs of life, and without any after which nobody waits for a node at the
end: a launcher that is stopped keeps its connection."""

_POLL = 0.1
"""Seconds between two looks at what does not wake the launcher."""

_WORDS = 20_000
"""Length, in characters, to which a node's last words are cut."""


@contextlib.contextmanager
def connected(
    member: Member, host: str, port: int, timeout: float, reports: Path
) -> Iterator[None]:
    """Let the launchers of all nodes meet, and stay connected inside the context. Collective.

    Node 0's port is free again once they have met.
    """
    lines = [Line(*each) for each in gather(member, host, port, timeout)]
    watch = _Watch(member, lines, Notes(reports))
    try:
        with watch.ending_ranks():
            yield
    except BaseException as error:
        if isinstance(error, PeerLost):
            watch.lost.wait(_CAUSE_TIMEOUT)
        cause = watch.cause
        watch.part(cause or _last_words(member, error))
        if cause is not None and _is_consequence(error):
            raise _failed(cause) from None
        raise
    else:
        watch.part(None)
        if watch.cause is not None:
            raise _failed(watch.cause)
    finally:
        watch.close()


class _Watch:
    """Hears the other nodes until all have ended, and ends this one's ranks if one fails.

    Attributes:
        notes: what this node's ranks leave for it.
        lost: set once a node has failed.
        cause: which one, and why.
    """

    def __init__(self, member: Member, lines: list[Line], notes: Notes) -> None:
        self.notes = notes
        self.lost = threading.Event()
        self.cause: str | None = None
        self._is_root = member.number == 0
        self._lines = lines
        self._running = threading.Lock()
        """Held while ranks run that may be ended."""
        self._shown: io.FileIO | None = None
        if not self._is_root:
            notes.shown.touch()
            self._shown = notes.shown.open("rb", buffering=0)
        self._looked = 0.0
        """When all that had come was heard: others may speak while a file is received."""
        self._passing_on = threading.Lock()
        """Held until what was read is sent: both threads read."""
        self._thread = threading.Thread(target=self._hear, name="rltrain-lifeline", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def ending_ranks(self) -> Iterator[None]:
        """Raise in the main thread if a node fails inside the context."""
        if threading.current_thread() is not threading.main_thread():
            yield  # Python handles signals in the main thread only: the ranks must notice.
            return
        before = signal.signal(signal.SIGQUIT, self._end)
        try:
            with self._running:
                yield
        finally:
            signal.signal(signal.SIGQUIT, before)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGQUIT while a launcher does not: a user may send it, too."""
        if self._running.locked():
            raise ended_by_signal(signal.SIGQUIT)

    def _hear(self) -> None:
        with selectors.DefaultSelector() as waiting:
            for line in self._lines:
                waiting.register(line.connection, selectors.EVENT_READ, line)
            beat = time.monotonic() + _BEAT
            while waiting.get_map():
                if (now := time.monotonic()) > beat:
                    beat = now + _BEAT
                    for line in self._lines:
                        line.say("")
                for key, _ in waiting.select(_POLL):
                    line = key.data
                    cause = line.hear()
                    if cause is not None and self.cause is None:
                        self._fail(cause)
                    if line.over:
                        waiting.unregister(line.connection)
                self._looked = time.monotonic()
                self._pass_on()

    def _fail(self, cause: str) -> None:
        """Let all nodes know of the first failure, and give this one's ranks a moment."""
        self.cause = cause
        if self._is_root:
            for line in self._lines:
                line.tell(cause)
        self.lost.set()
        timer = threading.Timer(_OWN_WORDS_TIMEOUT, self._end_ranks)
        timer.daemon = True
        timer.start()

    def _end_ranks(self) -> None:
        if self._running.locked():
            # The launcher ends its ranks at once, as if a user had sent the signal.
            os.kill(os.getpid(), signal.SIGQUIT)

    def _pass_on(self) -> None:
        """Let node 0 show what this node's ranks have shown here."""
        if self._shown is None:
            return
        with self._passing_on:
            if said := self._shown.read().decode(errors="replace").rstrip():
                self._lines[0].say(said)

    def part(self, words: str | None) -> None:
        """Tell the others how this node has ended, and wait until they have, too.

        `words` say why a node failed; they are None if this one's ranks ended well.
        """
        self._pass_on()
        if words is not None:
            for line in self._lines:
                line.tell(words)
        if words is None and self._is_root:  # Until then, it passes on why another one fails.
            self._wait(words, lambda: all(line.ended or line.over for line in self._lines))
        for line in self._lines:
            line.end()
        self._wait(words, lambda: not self._thread.is_alive())

    def _wait(self, words: str | None, done: Callable[[], bool]) -> None:
        """Wait for other nodes: not for long after a failure, nor for one that is silent."""
        deadline = math.inf
        while not done() and time.monotonic() < deadline:
            self._thread.join(_POLL)
            if words is not None or self.cause is not None:
                deadline = min(deadline, time.monotonic() + _PARTING_TIMEOUT)
            for line in self._lines:
                silent = self._looked - line.heard
                if silent > _SILENCE and not line.over and not line.left:
                    line.leave(silent)

    def _cut(self) -> None:
        for line in self._lines:
            line.cut()

    def close(self) -> None:
        """End the connections."""
        self._cut()
        self._thread.join()
        if self._shown is not None:
            self._shown.close()
        for line in self._lines:
            line.connection.close()


def _is_consequence(error: BaseException) -> bool:
    """Whether this node only ended because another one had."""
    by_signal = 128 + signal.SIGQUIT
    return isinstance(error, PeerLost) or getattr(error, "exit_code", None) == by_signal


def _last_words(member: Member, error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return f"{member.title} was interrupted."
    what = str(error) if isinstance(error, RltrainError) else f"{type(error).__name__} {error}"
    words = f"{member.title} failed. {what}".rstrip()[:_WORDS]
    return Refused(words) if isinstance(error, UsageError) else words


def _failed(cause: str) -> RankFailed:
    """Return the error of a node whose ranks end because of another node, with its status."""
    status = UsageError.exit_code if isinstance(cause, Refused) else RankFailed.exit_code
    return RankFailed(cause, exit_code=status)
