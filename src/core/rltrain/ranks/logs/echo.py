"""A rank's own output on the console, beside its log: each line after the rank's number."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from rltrain.ranks.logs.rank_log import console_stream
from rltrain.terminal import raw

_PAUSE = 0.2
"""Seconds between two looks at a log."""


@contextlib.contextmanager
def echoed(log: Path, rank: int, before: int = 0) -> Iterator[None]:
    """Show what is in a log, and what is added inside the context, on the console.

    The log is read as a file: the rank never waits for the console, and output from C is shown too.
    It is moved to the end of a file in the run folder, which has so many bytes `before`.
    """
    ended = threading.Event()
    arguments = _Tail(log, before), f"[rank {rank}] ", ended
    thread = threading.Thread(target=_follow, args=arguments, name="rltrain-echo", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _follow(tail: _Tail, prefix: str, ended: threading.Event) -> None:
    """Copy a growing log, line by line; at the end, also a line that is not complete."""
    console, rest = raw(console_stream()), b""  # What the user's programs print stays as it is.
    over = False
    # The reader of the console may have exited, as with `| head`.
    with contextlib.suppress(OSError, ValueError), contextlib.closing(tail):
        while not over:
            over = ended.wait(_PAUSE)
            *lines, rest = (rest + tail.read()).split(b"\n")
            for line in [*lines, rest] if over and rest else lines:
                console.write(f"{prefix}{line.decode(errors='replace')}\n")
            console.flush()


class _Tail:
    """Reads what is added to a log; see `rltrain.ranks.logs.rank_log.RankLog`."""

    def __init__(self, log: Path, before: int) -> None:
        self._log, self._before = log, before
        self._file = open(log, "rb")  # noqa: SIM115 - closed by `close`.

    def read(self) -> bytes:
        """Return what is new, the end of a file that has been left included."""
        new = self._file.read()
        try:
            now = open(self._log, "rb")  # noqa: SIM115
        except FileNotFoundError:
            return new  # It is being moved to the run folder.
        left, state = os.fstat(self._file.fileno()), os.fstat(now.fileno())
        if os.path.samestat(left, state):
            now.close()
            return new
        # A file that has been moved is gone, and what was in it is at the end of the other one.
        moved, self._before = self._before + self._file.tell(), 0
        if left.st_nlink == 0 and moved <= state.st_size:
            now.seek(moved)
        else:
            new += self._file.read()
        self.close()
        self._file = now
        return new + now.read()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
