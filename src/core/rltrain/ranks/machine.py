"""This machine: the cores and the memory that its ranks share, and its addresses."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from pathlib import Path

from rltrain.ranks.world import World

_TOPOLOGY = Path("/sys/devices/system/cpu")

_CHOSEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Variables by which users choose how glibc allocates memory."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h."""

_KEPT = 1 << 30
"""Bytes at the top of the heap that are not given back."""

_LARGEST = (256 << 20, 32 << 20)
"""Bytes from which an array has pages of its own. Older versions of glibc allow up to 32 MiB."""


def available_cores() -> int:
    """Return how many CPU cores this process may use."""
    return len(os.sched_getaffinity(0))


def cores_of_rank(world: World) -> int:
    """Return how many CPU cores a rank has for its threads: its own, or its share of the node's."""
    cores = available_cores()
    return cores if _are_own() else max(1, cores // world.local_world_size)


def bind_cores(world: World) -> None:
    """Keep this thread, and those that it starts later, on this rank's part of the node's cores.

    Ranks that wait for each other many times a second otherwise often wake up on one core. Call it
    when the process group is there: gloo's own threads must be free to run next to this one, or an
    average of a megabyte takes several times as long on a single core (benchmarks/sync.py).

    It does nothing if the user has chosen by OMP_PROC_BIND, if mpiexec or the like has already done
    it, or if there are more ranks than cores.
    """
    cores, ranks = sorted(os.sched_getaffinity(0), key=_position), world.local_world_size
    if "OMP_PROC_BIND" in os.environ or not 1 < ranks <= len(cores) or _are_own():
        return
    first, after = (len(cores) * slot // ranks for slot in (world.slot, world.slot + 1))
    with contextlib.suppress(OSError):  # A sandbox may forbid it; it is only slower without.
        os.sched_setaffinity(0, cores[first:after])


def _are_own() -> bool:
    """Return whether whoever started this process gave it cores of its own: not its parent's."""
    parent = os.getppid()
    with contextlib.suppress(OSError):
        # 0 is a parent outside this container, and means this process to Linux.
        return parent > 0 and os.sched_getaffinity(parent) != os.sched_getaffinity(0)
    return False


def _position(core: int) -> tuple[int, int, int]:
    """Return a key that sorts the threads of one core, and the cores of one socket, together."""
    folder = _TOPOLOGY / f"cpu{core}" / "topology"
    with contextlib.suppress(OSError, ValueError):
        package, number = (
            int((folder / name).read_text()) for name in ("physical_package_id", "core_id")
        )
        return package, number, core
    return 0, core, core


def keep_freed_memory() -> None:
    """Let this process use the memory of freed arrays again, instead of giving it back to Linux.

    By default, glibc gives large arrays pages of their own, and gives back what is free at the top
    of its heap. So a step of training gets its activations as new pages, which Linux must clear,
    again and again, and ranks wait for whichever got its pages last (docs/clusters.md, "Memory").

    It changes nothing with another C library or allocator, or if the user has chosen by a variable
    such as MALLOC_TRIM_THRESHOLD_ or GLIBC_TUNABLES.
    """
    if any(name in os.environ for name in _CHOSEN):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, _KEPT)
        any(set_option(_MMAP_THRESHOLD, size) for size in _LARGEST)


def address_towards(host: str) -> str | None:
    """Return the address of this machine from which a packet to `host` would come.

    It sends no packet: connecting a UDP socket only looks up the route. None if there is none.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def own_address() -> str | None:
    """Return the address from which packets leave for other networks; None without a route."""
    # Addresses of documentation (RFC 5737 and RFC 3849): nothing is there, and nothing is sent.
    return address_towards("192.0.2.1") or address_towards("2001:db8::1")
