"""Ranks that no launcher of rltrain started watch each other: each one those of its machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rltrain_ranks.logs.rank_log import console_stream
from rltrain_ranks.pulse import pulse_file
from rltrain_ranks.watch.hangs import HangWatch
from rltrain_ranks.watch.patience import shortest as shortest_timeout
from rltrain_ranks.watch.verdict import Hang

__all__ = ["machine", "watching"]

_PERIODS = 0.2, 5.0
"""The shortest and the longest time between two looks, in seconds."""

_FAREWELL = 15.0
"""Seconds in which a rank must notice by itself that another one, which hung, has been ended."""


def machine() -> str:
    """Return what only processes on this machine share: host names may be the same elsewhere."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text().strip() if boot.exists() else socket.gethostname()


@contextlib.contextmanager
def watching(
    rank: int, folders: Sequence[tuple[str, str]], timeout: float | str | None
) -> Iterator[None]:
    """Look for ranks that hang, in a thread.

    Args:
        rank: this one.
        folders: `machine()` and the private folder of each rank.
        timeout: the option `hang_timeout`.
    """
    here = machine()
    places = {
        other: pulse_file(Path(folder), other)
        for other, (there, folder) in enumerate(folders)
        if there == here and pulse_file(Path(folder), other).exists()
    }
    watch = HangWatch(lambda: places, timeout, nodes=1 + (len(places) < len(folders)))
    over = threading.Event()
    arguments = (watch, rank, places, timeout, over)
    thread = threading.Thread(target=_look, args=arguments, name="rltrain-hangs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _look(
    watch: HangWatch,
    rank: int,
    places: Mapping[int, Path],
    timeout: float | str | None,
    over: threading.Event,
) -> None:
    period = min(_PERIODS[1], max(_PERIODS[0], shortest_timeout(timeout) / 10))
    while not over.wait(period):
        hang = watch.look()
        if hang is not None:
            _end(hang, rank, places)


def _end(hang: Hang, rank: int, places: Mapping[int, Path]) -> None:
    """End the missing rank; one rank does it for all of its machine."""
    lock = places[min(places)].with_name("hang.lock")
    with contextlib.suppress(OSError):
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        for stream in {console_stream(), sys.stderr}:
            print(f"rltrain: {hang.message}", file=stream, flush=True)
        hang.end(all_but=rank)
    if rank not in hang.culprits:
        time.sleep(_FAREWELL)
    for ended in {rank, *hang.culprits}:
        shutil.rmtree(places[ended].parent, ignore_errors=True)
    os._exit(1)
