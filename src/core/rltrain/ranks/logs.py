"""What ranks print: their logs, the console, and streams that outlive their readers."""

from __future__ import annotations

import contextlib
import io
import os
import select
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from rltrain.terminal import plain, plain_stream, raw

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LIMIT = 100 << 20
"""Bytes of a log that are enough to start a new file. The one before it is kept."""

_PAUSE = 0.2
"""Seconds between two reads of a log that is shown."""

_console: TextIO | None = None

_folder: Path | None = None
"""Where the ranks of this node report, if this process is one of them."""


class LossyFile(io.FileIO):
    """Loses what cannot be written, because no one reads it (`| head`) or a disk is full.

    A print in a library must not raise because of that. `reason` is why a disk did not take it.
    """

    def __init__(self, descriptor: int, closefd: bool = True) -> None:
        super().__init__(descriptor, "w", closefd=closefd)
        self.reason = ""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or leave it out."""
        try:
            while (written := super().write(data)) is None:
                # Another process that shares it has made it non-blocking, and its reader is slow.
                select.select([], [self], [])
            return written
        except BrokenPipeError:
            pass
        except OSError as error:
            self.reason = error.strerror or str(error)
        return memoryview(data).nbytes


def as_text(file: LossyFile) -> TextIO:
    """Return a stream that writes each line when it is complete."""
    buffer = io.BufferedWriter(file)
    return cast(TextIO, io.TextIOWrapper(buffer, "utf-8", "replace", line_buffering=True))


def flush(*streams: TextIO | None) -> None:
    """Flush streams. The reader may have exited, as with `| head`: no one wants the rest."""
    for stream in streams:
        with contextlib.suppress(AttributeError, OSError, ValueError):  # It may be none.
            stream.flush()  # type: ignore[union-attr]


@contextlib.contextmanager
def lasting_output() -> Iterator[Callable[[], str]]:
    """Let what this process prints in the context be lost where it cannot be written.

    It gives a function that says why something of stdout is missing that a disk has not taken.
    """
    before = sys.stdout, sys.stderr
    files = [_lasting(stream, number) for number, stream in enumerate(before, start=1)]
    try:
        yield lambda: files[0].reason if files[0] is not None else ""
    finally:
        flush(sys.stdout, sys.stderr)
        sys.stdout, sys.stderr = before


def _lasting(stream: TextIO | None, descriptor: int) -> LossyFile | None:
    """Replace a standard stream, unless it is another one, such as a notebook's."""
    if stream is None or raw(stream) is not stream or _descriptor_of(stream) != descriptor:
        return None
    flush(stream)
    file = LossyFile(descriptor, closefd=False)
    setattr(sys, ("stdout", "stderr")[descriptor - 1], as_text(file))
    return file


def _descriptor_of(stream: TextIO) -> int:
    """Return a stream's descriptor; -1 if it has none, as a notebook's stream."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return -1


def console_stream() -> TextIO:
    """Return the stream that the user sees: stdout as it was before any `RankLog`.

    In a rank, and in a command, control characters that are written to it become visible.
    """
    return _console or sys.stdout


def view_file(folder: Path | None = None) -> Path | None:
    """Return the file with lines for a view on the terminal; it exists while there is one.

    The view, in rank 0, shows lines of the launcher and of other ranks above itself: on the
    terminal they would be overwritten. A process that is no rank gives the folder of the reports.
    """
    folder = folder or _folder
    return folder and folder / "view"


def show(line: str, folder: Path | None = None) -> None:
    """Show a line to the user: above the live view, if there is one; see `view_file`."""
    file = view_file(folder)
    if file is not None and file.exists():
        with contextlib.suppress(OSError), file.open("a") as view:
            view.write(line + "\n")
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
    launcher expects the output of a rank that failed early. Afterwards a link is there.

    `has_launcher` says whether a launcher of rltrain watches the rank.
    """

    def __init__(self, path: Path, has_launcher: bool = False) -> None:
        self.path, self.has_launcher = path, has_launcher
        self._now = path
        self._echo: _Echo | None = None

    def __enter__(self) -> RankLog:
        global _console, _folder
        self._descriptor = _open(self.path)  # First: if it fails, nothing has changed.
        self._outer = _console, _folder
        _folder = self.path.parent
        self._streams = sys.stdout, sys.stderr
        flush(*self._streams)
        self._saved = [os.dup(1), os.dup(2)]
        if _console is None:
            stdout = raw(sys.stdout)
            if (descriptor := _descriptor_of(stdout)) in (1, 2):  # 2: stdout is for JSON only.
                stdout = as_text(LossyFile(os.dup(descriptor)))
            _console = plain_stream(stdout)
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

    @contextlib.contextmanager
    def echoed(self, rank: int) -> Iterator[None]:
        """Show what is in the log, and what is added, on the console, each line after the rank."""
        self._echo = _Echo(self._descriptor, rank)
        try:
            yield
        finally:
            flush(self._stream)
            self._echo.close()
            self._echo = None

    def _continue_in(self, descriptor: int) -> None:
        flush(self._stream)
        if self._echo is not None:
            self._echo.switch(descriptor)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._redirect()

    def _redirect(self) -> None:
        os.dup2(self._descriptor, 1)
        os.dup2(self._descriptor, 2)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)


class _Echo:
    """Copies a log to the console in a thread, so that the rank never waits for the console.

    It reads the file: output from C is shown too.
    """

    def __init__(self, descriptor: int, rank: int) -> None:
        self._descriptor, self._at, self._rest = descriptor, 0, b""
        self._prefix, self._console = f"[rank {rank}] ", raw(console_stream())
        self._reading, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._follow, name="rltrain-echo", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._over.wait(_PAUSE):
            self._copy()

    def _copy(self) -> None:
        # The reader of the console may have exited, as with `| head`.
        with self._reading, contextlib.suppress(OSError, ValueError):
            while new := os.pread(self._descriptor, 1 << 16, self._at):
                self._at += len(new)
                *lines, self._rest = (self._rest + new).split(b"\n")
                self._show(*lines)
            self._console.flush()

    def _show(self, *lines: bytes) -> None:
        for line in lines:
            self._console.write(f"{self._prefix}{line.decode(errors='replace')}\n")

    def switch(self, descriptor: int) -> None:
        """Continue at the end of another file."""
        self._copy()
        with self._reading:
            self._descriptor, self._at = descriptor, os.fstat(descriptor).st_size

    def close(self) -> None:
        """Show what is left, a line that is not complete included."""
        self._over.set()
        self._thread.join()
        self._copy()
        with contextlib.suppress(OSError, ValueError):
            self._show(*filter(None, [self._rest]))
            self._console.flush()
