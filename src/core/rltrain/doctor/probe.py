"""What a rank does that is looked at: it meets the others, and all-reduces."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rltrain.config import Placement
from rltrain.launch.rank_log import RankLog
from rltrain.plugins.manager import RunPlugins
from rltrain.plugins.registry import discover
from rltrain.run.worker import be_started
from rltrain.specs import BackendSpec, load_object
from rltrain.types import ProcessGroup, World

__all__ = ["RESULT", "measure", "meet", "stages", "work"]

RESULT = "result.json"
"""The file in the run's log root in which ranks write what was measured."""

SMALL, SMALL_TIMES = 1, 50
LARGE, LARGE_TIMES = 2**20, 10
"""Numbers of 4 bytes, and how often they are all-reduced: the same on every rank."""

Filled = Callable[[int, float, str], Any]


def work(placement: Placement, report_dir: str) -> None:
    """Be looked at, as one of the ranks that rltrain's launcher started."""
    be_started(placement, report_dir, meet)


def meet(placement: Placement, world: World, log: RankLog) -> None:
    """Make the process group as a training does, and measure it. Collective."""
    folder = Path(placement.log_root)
    spec = discover(placement.no_plugins).get(BackendSpec, placement.backend)
    _say(folder, world, "loads the backend")
    plugins = RunPlugins()
    plugins.choose(spec, placement.plugins)
    filled: Filled = load_object(spec.filled) if spec.filled else _of_numpy
    try:
        _say(folder, world, "makes the process group")
        group: ProcessGroup = plugins.first(
            "rltrain_init_distributed", f"backend {spec.name!r}", world=world, config=placement
        )
        _say(folder, world, "is in the first all-reduce")
        result = measure(group, filled)
        _say(folder, world, "leaves the process group")
        group.close()
    except BaseException as error:
        # A backend may have to leave at once, without waiting for peers, which may be gone.
        plugins.call_each("rltrain_shutdown", session=None, error=error)
        raise
    _say(folder, world, "is done")
    # All do: of ranks that were started elsewhere, each has a folder of its own.
    _write(folder / RESULT, world, json.dumps(result))


def measure(group: ProcessGroup, filled: Filled) -> dict[str, Any]:
    """All-reduce numbers whose sum is known, and take the time. Collective.

    Args:
        group: the process group.
        filled: makes a vector: of a size, full of a number, on a device.
    """

    def vector(size: int) -> Any:
        return filled(size, float(group.rank + 1), group.device)

    right = group.world_size * (group.world_size + 1) / 2
    sums = [group.all_reduce(vector(size), "sum") for size in (SMALL, LARGE)]
    # Read on the host, where a device that works asynchronously has to be done.
    seen = [(float(x.min()), float(x.max())) for x in sums]
    own = {
        "rank": group.rank,
        "host": platform.node(),
        "device": group.device,
        "right": all(pair == (right, right) for pair in seen),
    }
    # The maximum of all: of a sum of sums, numbers would soon be infinite.
    small, large = group.all_reduce(vector(SMALL), "max"), group.all_reduce(vector(LARGE), "max")
    latency = _time(group, small, SMALL_TIMES)
    seconds = _time(group, large, LARGE_TIMES)
    return {
        "expected": right,
        "found": [list(pair) for pair in seen],
        "ranks": group.gather_objects(own),
        "latency_ms": latency * 1e3,
        "large_bytes": 4 * LARGE,
        "large_ms": seconds * 1e3,
        "bandwidth_gb_s": 4 * LARGE / seconds / 1e9,
    }


def stages(folder: Path) -> dict[int, str]:
    """Return what each rank that began was last doing."""
    files = {int(file.stem.removeprefix("rank_")): file for file in folder.glob("rank_*.stage")}
    return {rank: files[rank].read_text() for rank in sorted(files)}


def _say(folder: Path, world: World, stage: str) -> None:
    """Leave word of what this rank does, for whoever finds that it hangs."""
    _write(folder / f"rank_{world.rank}.stage", world, stage)


def _write(file: Path, world: World, text: str) -> None:
    """Write a file so that it is read whole or not at all."""
    partial = file.with_name(f".{world.rank}.partial")
    partial.write_text(text)
    os.replace(partial, file)


def _time(group: ProcessGroup, x: Any, times: int) -> float:
    """Return the seconds that one all-reduce takes, until the host can read the result."""
    group.barrier()
    began = time.perf_counter()
    for _ in range(times):
        x = group.all_reduce(x, "max")
        float(x[0])
    return (time.perf_counter() - began) / times


def _of_numpy(size: int, value: float, device: str) -> Any:
    import numpy as np

    return np.full(size, value, np.float32)
