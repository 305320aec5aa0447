"""A rank's log file, which receives whatever the rank prints, from Python or from C."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from pathlib import Path
from types import TracebackType
from typing import TextIO, cast

__all__ = ["RankLog", "console_stream"]

_console: TextIO | None = None


def console_stream() -> TextIO:
    """Return the stream that the user sees: stdout as it was before any `RankLog`."""
    return _console or sys.stdout


class RankLog:
    """Context manager that redirects stdout and stderr to a file.

    The run folder is known only once all ranks have agreed. Until `move`, the log is where the
    launcher looks for the output of a rank that failed early. Afterwards a link is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def __enter__(self) -> RankLog:
        global _console
        file = _open(self.path)  # First: if it cannot be opened, nothing has changed.
        self._outer_console = _console
        self._streams = sys.stdout, sys.stderr
        _flush(*self._streams)
        self._descriptors = [os.dup(1), os.dup(2)]
        if _console is None:
            _console = self._terminal(sys.stdout)
        self._redirect(file)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        global _console
        if _console is not None:
            _flush(_console)
        _console = self._outer_console
        self._close()
        sys.stdout, sys.stderr = self._streams
        for target, saved in enumerate(self._descriptors, start=1):
            os.dup2(saved, target)
            os.close(saved)

    def move(self, path: Path) -> None:
        """Continue in another file, which starts with what was written so far."""
        self._close()
        shutil.copyfile(self.path, path)
        self.path.unlink()
        self.path.symlink_to(path)
        self._redirect(_open(path))

    def copy_console(self, path: Path) -> None:
        """Write to a file, too, what this rank shows to the user."""
        global _console
        _console = cast(TextIO, _Both(console_stream(), _open(path)))

    def _terminal(self, stdout: TextIO) -> TextIO:
        """Return a stream that still reaches what stdout reached, once descriptor 1 is the log."""
        try:
            on_descriptor = stdout.fileno() == 1
        except (OSError, ValueError, AttributeError):
            on_descriptor = False  # For example a notebook's stream, which is not descriptor 1.
        if not on_descriptor:
            return stdout
        return os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace", buffering=1)

    def _redirect(self, file: TextIO) -> None:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        self._file = sys.stdout = sys.stderr = file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Both(io.TextIOBase):
    """Writes to two streams."""

    def __init__(self, *streams: TextIO) -> None:
        self._streams = streams

    def write(self, text: str) -> int:
        for stream in self._streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        _flush(*self._streams)


def _open(path: Path) -> TextIO:
    return path.open("a", encoding="utf-8", errors="replace", buffering=1)


def _flush(*streams: TextIO) -> None:
    for stream in streams:
        # The reader may have exited, as with `| head`: nobody wants the rest.
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
