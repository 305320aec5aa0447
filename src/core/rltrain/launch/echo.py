"""A rank's own output on the console, beside its log: each line after the rank's number."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rltrain.launch.rank_log import console_stream

if TYPE_CHECKING:
    from rltrain.config import RunConfig
    from rltrain.types import World

__all__ = ["echoed", "is_shown"]

_PAUSE = 0.2
"""Seconds between two looks at a log."""


def is_shown(config: RunConfig, world: World) -> bool:
    """Return whether the console shows this rank's own output."""
    return config.show_ranks == "all" or world.place in (config.show_ranks or ())


@contextlib.contextmanager
def echoed(log: Path, rank: int) -> Iterator[None]:
    """Show what is in a log, and what is added inside the context, on the console.

    The log is read as a file: the rank never waits for the console, and output from C is shown too.
    """
    ended = threading.Event()
    thread = threading.Thread(
        target=_follow, args=(log, f"[rank {rank}] ", ended), name="rltrain-echo", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _follow(log: Path, prefix: str, ended: threading.Event) -> None:
    """Copy a growing log, line by line; at the end, also a line that is not complete."""
    console, read, rest = console_stream(), 0, b""
    over = False
    # The reader of the console may have exited, as with `| head`.
    with contextlib.suppress(OSError, ValueError):
        while not over:
            over = ended.wait(_PAUSE)
            new = _part(log, read)
            read += len(new)
            *lines, rest = (rest + new).split(b"\n")
            for line in [*lines, rest] if over and rest else lines:
                console.write(f"{prefix}{line.decode(errors='replace')}\n")
            console.flush()


def _part(log: Path, start: int) -> bytes:
    """Return what is in a log from a byte on."""
    try:
        with open(log, "rb") as file:
            file.seek(start)
            return file.read()
    except FileNotFoundError:
        return b""  # It is being moved to the run folder.
