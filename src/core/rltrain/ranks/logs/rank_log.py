"""A rank's log file, which receives whatever the rank prints, from Python or from C."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from pathlib import Path
from typing import TextIO, cast

from rltrain.ranks.guarded import flush
from rltrain.ranks.logs.stream import LossyFile, as_text, descriptor_of
from rltrain.terminal import plain, plain_stream, raw

LIMIT = 100 << 20
"""Bytes of a log that are enough to start a new file. The one before it is kept."""

_console: TextIO | None = None

_folder: Path | None = None
"""Where the ranks of this node report, if this process is one of them."""


def console_stream() -> TextIO:
    """Return the stream that the user sees: stdout as it was before any `RankLog`.

    In a rank, and in a command, control characters that are written to it become visible.
    """
    return _console or sys.stdout


def view_files(folder: Path | None = None) -> tuple[Path, Path] | None:
    """Return the file that is there while a view draws, and the one with lines for it.

    The view, in rank 0, shows them above itself: on the terminal they would be overwritten. A line
    can come from the launcher, or from another rank.

    Args:
        folder: where the ranks of this node report, for a process that is none of them.

    Returns:
        None in a process that is no rank.
    """
    folder = folder or _folder
    return None if folder is None else (folder / "view", folder / "view.lines")


def show(line: str, folder: Path | None = None) -> None:
    """Show a line to the user: above the live view, if there is one; see `view_files`."""
    files = view_files(folder)
    if files is not None and files[0].exists():
        with contextlib.suppress(OSError), files[1].open("a") as file:
            file.write(line + "\n")
            return
    print(plain(line), file=console_stream(), flush=True)


def say(text: str) -> None:
    """Show a line to the user, and in this rank's log."""
    line = f"rltrain: {text}"
    show(line)
    if sys.stdout is not console_stream():
        print(plain(line), flush=True)


def older(log: Path) -> Path:
    """Return where a log's older half is, once it has been rotated."""
    return log.with_name(f"{log.name}.1")


class RankLog:
    """Context manager that redirects stdout and stderr to a file.

    The run folder is known only once all ranks have agreed. Until `move`, the log is where the
    launcher looks for the output of a rank that failed early. Afterwards a link is there.

    Attributes:
        path: where it is until then.
        has_launcher: whether a launcher of rltrain looks at the rank.
    """

    def __init__(self, path: Path, has_launcher: bool = False) -> None:
        self.path, self.has_launcher = path, has_launcher
        self._now = path

    def __enter__(self) -> RankLog:
        global _console, _folder
        self._descriptor = _open(self.path)  # First: if it fails, nothing has changed.
        self._outer = _console, _folder
        _folder = self.path.parent
        self._streams = sys.stdout, sys.stderr
        flush(*self._streams)
        self._saved = [os.dup(1), os.dup(2)]
        if _console is None:
            _console = plain_stream(self._terminal(sys.stdout))
        # Libraries keep the stream: when the log is another file, only the descriptors change.
        self._stream = sys.stdout = sys.stderr = as_text(LossyFile(1, closefd=False))
        self._redirect()
        return self

    def __exit__(self, *error: object) -> None:
        global _console, _folder
        if _console is not None:
            flush(_console)
        _console, _folder = self._outer
        flush(self._stream)
        sys.stdout, sys.stderr = self._streams
        for target, saved in enumerate(self._saved, start=1):
            os.dup2(saved, target)
            os.close(saved)
        os.close(self._descriptor)

    def move(self, path: Path) -> None:
        """Continue at the end of another file, after what was written so far."""
        flush(self._stream)
        with (
            contextlib.suppress(OSError),  # The disk may be full already.
            self.path.open("rb") as written,
            path.open("ab") as other,
        ):
            shutil.copyfileobj(written, other)
        self._now = path.resolve()
        self._continue_in(_open(path))
        self.path.unlink()
        self.path.symlink_to(path)

    def rotate(self) -> None:
        """Start a new file if the log is long. Call it now and then."""
        with contextlib.suppress(OSError):  # It was removed, or the disk is full.
            if os.fstat(self._descriptor).st_size > LIMIT:
                self._now.replace(older(self._now))
                self._continue_in(_open(self._now))

    def _continue_in(self, descriptor: int) -> None:
        flush(self._stream)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._redirect()

    def _redirect(self) -> None:
        os.dup2(self._descriptor, 1)
        os.dup2(self._descriptor, 2)

    def copy_console(self, path: Path) -> None:
        """Write to a file, too, what this rank shows to the user."""
        global _console
        streams = raw(console_stream()), as_text(LossyFile(_open(path)))
        _console = plain_stream(cast(TextIO, _Both(*streams)))

    def _terminal(self, stdout: TextIO) -> TextIO:
        """Return a stream that still reaches what stdout reached, once descriptors are the log."""
        stdout = raw(stdout)
        descriptor = descriptor_of(stdout)
        # It is 2 where only JSON may be on stdout.
        return as_text(LossyFile(os.dup(descriptor))) if descriptor in (1, 2) else stdout


class _Both(io.TextIOBase):
    """Writes to two streams."""

    def __init__(self, *streams: TextIO) -> None:
        self._streams = streams

    def write(self, text: str) -> int:
        for stream in self._streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        flush(*self._streams)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
