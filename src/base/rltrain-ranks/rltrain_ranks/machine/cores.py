"""What the ranks of a node share: its CPU cores, of which each has a part, and its memory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rltrain_ranks.world import World

__all__ = ["available_cores", "bind_cores", "cores_of_rank", "crowding"]

_TOPOLOGY = Path("/sys/devices/system/cpu")

_MEMORY = Path("/proc/meminfo")

_OF_A_RANK = 400
"""Megabytes that a small run's rank has in memory (docs/measurements.md)."""


def available_cores() -> int:
    """Return how many CPU cores this process may use."""
    return len(os.sched_getaffinity(0))


def crowding(ranks: int) -> str:
    """Return what ranks on this machine have too little of, in words; "" if they have enough."""
    cores = available_cores()
    found = [f"{ranks} ranks share {cores} cores"] if ranks > cores else []
    lines = _MEMORY.read_text().splitlines() if _MEMORY.is_file() else []
    free = [int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:")]
    if free and ranks * _OF_A_RANK > free[0]:
        found.append(f"{free[0]:,} MB of memory are free, and a rank has {_OF_A_RANK} or more")
    return "; ".join(found)


def cores_of_rank(world: World) -> int:
    """Return how many CPU cores a rank has for its threads: its own, or its share of the node's."""
    cores = available_cores()
    return cores if _are_own() else max(1, cores // world.local_world_size)


def bind_cores(world: World) -> None:
    """Keep this thread, and those that it starts later, on this rank's part of the node's cores.

    Ranks that wait for each other many times a second otherwise often wake up on one core. Call it
    when the process group is there: gloo's own threads must be free to run beside this one, or an
    average of a megabyte takes several times as long on a single core (benchmarks/sync.py).

    It does nothing if the user has chosen by OMP_PROC_BIND, if mpiexec or the like has already done
    it, or if there are more ranks than cores.
    """
    cores, ranks = sorted(os.sched_getaffinity(0), key=_position), world.local_world_size
    if "OMP_PROC_BIND" in os.environ or not 1 < ranks <= len(cores) or _are_own():
        return
    first, after = (len(cores) * place // ranks for place in (world.place, world.place + 1))
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
