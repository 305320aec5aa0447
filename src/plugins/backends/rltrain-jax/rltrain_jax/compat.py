"""What depends on the version of jax (0.6 to 0.12): differences, bugs, and its private parts.

This is the one file that uses private parts of jax; `tests/test_jax_contract.py` checks them:

- where jax keeps the client of its coordination service, and rank 0's service: without
  recoverability (older versions), a process that exits waits up to 100 s for peers that have gone,
  and then aborts;
- how the CPU backend is made: gloo resolves the host's name to find its own address, which often
  fails, and jax has no option for the address.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
from collections.abc import Iterator
from typing import Any

import jax
import jax._src.lib
from jax._src import distributed, xla_bridge

try:
    from jax import enable_x64
except ImportError:  # Where older versions have it.
    from jax.experimental import enable_x64  # type: ignore[attr-defined,no-redef]
try:
    from jax import shard_map
except ImportError:  # As above.
    from jax.experimental.shard_map import shard_map  # type: ignore[no-redef]

__all__ = ["enable_x64", "shard_map"]

PREEMPTION = "jax_enable_preemption_service"
"""Older versions do not have this option, and always run the service."""

RECOVERABILITY = "jax_enable_recoverability"
"""Older versions do not have this option: there jax ends the peers of a rank that failed."""

LEAVES_TOGETHER = not hasattr(jax.config, RECOVERABILITY)
"""Whether `jax.distributed.shutdown` waits until every rank has called it."""


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


def set_gloo_address(address: str) -> None:
    """Make jax build its CPU backend with gloo on an address of this machine.

    Call it before any computation: jax builds gloo when it first uses the CPU, and needs an
    initialized `jax.distributed` by then.
    """

    def make() -> Any:
        jaxlib: Any = jax._src.lib
        # jaxlib's own module, by its newer and its older name.
        native = getattr(jaxlib, "_jax", None) or jaxlib.xla_client._xla
        gloo = native.make_gloo_tcp_collectives(
            distributed_client=distributed.global_state.client, hostname=address
        )
        return xla_bridge.make_cpu_client(gloo)

    xla_bridge.register_backend_factory("cpu", make, priority=0, fail_quietly=False)


def exit_alone() -> None:
    """Let this process exit without waiting for its peers."""
    state = distributed.global_state
    for each in (state.client, state.service):
        # Freeing the client shuts it down; freeing the service first aborts the process.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    state.client = state.service = None
