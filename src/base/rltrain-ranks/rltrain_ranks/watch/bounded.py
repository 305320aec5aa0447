"""A bound for the user's code that runs before any rank does."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import traceback
from collections.abc import Iterator

from rltrain_ranks.pulse import Pulse
from rltrain_ranks.stacks import Frame
from rltrain_ranks.watch.patience import Patience

__all__ = ["bounded"]

_STARTING = Pulse(0, 0, 0, 0, 0, "starting", waiting=False, call="")


@contextlib.contextmanager
def bounded(what: str, timeout: float | str | None) -> Iterator[None]:
    """End this process if this thread does not leave the context in time; say where it stands.

    Args:
        what: it does, to begin a sentence.
        timeout: the option `hang_timeout`; that of a run's start holds.
    """
    patience = Patience(timeout)
    seconds = patience.seconds(_STARTING)
    if math.isinf(seconds):
        yield
        return
    bound = f"{seconds:.0f} s ({patience.option(_STARTING)})"
    text = f"rltrain: {what} did not end within {bound}"
    timer = threading.Timer(seconds, _end, (text, threading.get_ident()))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(text: str, thread: int) -> None:
    walked = traceback.walk_stack(sys._current_frames()[thread])
    frames = [Frame(each.f_code.co_filename, line, each.f_code.co_name) for each, line in walked]
    where = next((frame for frame in frames if frame.is_of_the_user), frames[0])
    print(f"{text}: it stands at {where}.", file=sys.stderr, flush=True)
    os._exit(1)
