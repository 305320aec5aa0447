"""What only some of the supported versions of jax have, each in one place, with the reason."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import jax

try:
    from jax import enable_x64
except ImportError:  # Where older versions have it.
    from jax.experimental import enable_x64  # type: ignore[attr-defined,no-redef]
try:
    from jax import shard_map
except ImportError:  # As above.
    from jax.experimental.shard_map import shard_map  # type: ignore[no-redef]

__all__ = ["LEAVES_TOGETHER", "enable_x64", "quiet_distributed", "shard_map"]

PREEMPTION = "jax_enable_preemption_service"
"""Older versions have no such option, and the service always."""

RECOVERABILITY = "jax_enable_recoverability"
"""Older versions have no such option: there jax ends the peers of a rank that failed."""

LEAVES_TOGETHER = not hasattr(jax.config, RECOVERABILITY)
"""Whether `jax.distributed.shutdown` waits until every rank has called it."""


@contextlib.contextmanager
def quiet_distributed() -> Iterator[None]:
    """Let jax.distributed be initialized in here without taking signals, or ending peers, itself.

    Its preemption service catches SIGTERM, by which launchers end ranks, and does nothing with it.
    Without recoverability a rank that fails waits for its peers in an exit handler, and jax aborts
    the peers' processes before they can say what they know.
    """
    for name, value in ((PREEMPTION, False), (RECOVERABILITY, True)):
        if hasattr(jax.config, name):
            jax.config.update(name, value)
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if not hasattr(jax.config, PREEMPTION):
        with contextlib.suppress(ValueError):  # Not in the main thread: nothing can be taken back.
            signal.signal(signal.SIGTERM, handler)
