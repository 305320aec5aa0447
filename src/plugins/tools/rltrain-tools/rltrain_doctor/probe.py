"""The work of a test rank: it joins the process group and all-reduces."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path
from typing import Any

from rltrain.config import Placement
from rltrain.launch import RankLog, bind_cores, whole
from rltrain.plugins import discover, usual_of
from rltrain.specs import BackendSpec, load_object
from rltrain.types import Arrays, ProcessGroup, World
from rltrain.work import process_group

RESULT = "result.json"
"""The file in the run's log root to which ranks write the measurements."""

SMALL, SMALL_TIMES = 1, 50
LARGE, LARGE_TIMES = 2**20, 10
"""How many numbers of 4 bytes are all-reduced, and how often: the same on every rank."""


def meet(placement: Placement, world: World, log: RankLog, *, has_launcher: bool = False) -> None:
    """Make the process group as a training run does, and measure it. Collective."""
    folder = Path(placement.log_root)
    registry = discover(placement.no_plugins)
    spec = registry.get(BackendSpec, placement.backend)
    _write_stage(folder, world, "loads the backend")
    load_object(spec.factory)
    named = usual_of(registry, spec.framework, "arrays", spec.name)
    arrays: Arrays | None = load_object(named)() if named else None
    _write_stage(folder, world, "makes the process group")
    with process_group(placement, world, spec) as group:
        if has_launcher and placement.device_kind == "cpu":
            bind_cores(world)
        _write_stage(folder, world, "is in the first all-reduce")
        result = measure(group, arrays)
        _write_stage(folder, world, "leaves the process group")
    _write_stage(folder, world, "is done")
    # Every rank writes: ranks that were started elsewhere each have their own folder.
    with whole(folder / RESULT) as partial:
        partial.write_text(json.dumps(result))


def measure(group: ProcessGroup, arrays: Arrays | None = None) -> dict[str, Any]:
    """All-reduce numbers whose sum is known, and measure the time. Collective.

    Args:
        group: the process group.
        arrays: the framework's; None for numpy.
    """
    import numpy as np

    def vector(size: int) -> Any:
        filled = np.full(size, group.rank + 1, np.float32)
        return filled if arrays is None else arrays.from_host(filled, group.device)

    right = group.world_size * (group.world_size + 1) / 2
    sums = [group.all_reduce(vector(size), "sum") for size in (SMALL, LARGE)]
    # Reading on the host waits for devices that work asynchronously.
    found = [(float(x.min()), float(x.max())) for x in sums]
    own = {
        "rank": group.rank,
        "host": platform.node(),
        "device": group.device,
        "right": all(pair == (right, right) for pair in found),
    }
    # The maximum, because repeated sums would soon overflow.
    small, large = group.all_reduce(vector(SMALL), "max"), group.all_reduce(vector(LARGE), "max")
    latency = _time(group, small, SMALL_TIMES)
    seconds = _time(group, large, LARGE_TIMES)
    return {
        "expected": right,
        "found": [list(pair) for pair in found],
        "ranks": group.gather_objects(own),
        "latency_ms": latency * 1e3,
        "large_bytes": 4 * LARGE,
        "large_ms": seconds * 1e3,
        "bandwidth_gb_s": 4 * LARGE / seconds / 1e9,
    }


def stages(folder: Path) -> dict[int, str]:
    """Return the last stage of each rank that started."""
    files = {int(file.stem.removeprefix("rank_")): file for file in folder.glob("rank_*.stage")}
    return {rank: files[rank].read_text() for rank in sorted(files)}


def _write_stage(folder: Path, world: World, stage: str) -> None:
    """Write down what this rank is doing, to be reported if it hangs."""
    with whole(folder / f"rank_{world.rank}.stage") as partial:
        partial.write_text(stage)


def _time(group: ProcessGroup, x: Any, times: int) -> float:
    """Return the seconds of one all-reduce, until the host can read the result."""
    group.barrier()
    began = time.perf_counter()
    for _ in range(times):
        x = group.all_reduce(x, "max")
        float(x[0])
    return (time.perf_counter() - began) / times
