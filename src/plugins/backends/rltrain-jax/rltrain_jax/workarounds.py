"""Bugs of jax that this plugin works around, for jax 0.6 to 0.12.

`rltrain_jax.coordination` has those that need private parts of jax.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import jax

from rltrain_jax.compat import PREEMPTION, RECOVERABILITY


@contextlib.contextmanager
def initialize_quietly() -> Iterator[None]:
    """Keep `jax.distributed.initialize` from taking over signals and ending peers.

    Its preemption service catches SIGTERM, with which launchers end ranks, and ignores it. Without
    recoverability a rank that fails waits for its peers in an exit handler, and jax aborts the
    peers' processes before they can report what they know.
    """
    for name, value in ((PREEMPTION, False), (RECOVERABILITY, True)):
        if hasattr(jax.config, name):
            jax.config.update(name, value)
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if not hasattr(jax.config, PREEMPTION):
        with contextlib.suppress(ValueError):  # Only the main thread can restore a handler.
            signal.signal(signal.SIGTERM, handler)


def is_lost_peer(error: Exception) -> bool:
    """Return whether a collective failed because a rank has gone; jax raises ValueError for it."""
    return "Gloo" in str(error)


def summable_width(itemsize: int) -> int:
    """Return the bytes of an integer that collectives can sum: NCCL has no sum for 16 bits."""
    return max(itemsize, 4)
