"""A child process that starts test ranks, or joins as one: it may hang or crash."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rltrain.config import Placement
from rltrain.errors import RltrainError
from rltrain.launch import RankLog, bind_cores, end_with_parent, private_folder, whole
from rltrain.plugins import discover, usual_of
from rltrain.specs import BackendSpec, load_object
from rltrain.types import Arrays, ProcessGroup, World
from rltrain.work import on_placement, process_group

GRACE = 10.0
"""Seconds that the processes get to end after SIGTERM."""

SMALL, SMALL_TIMES = 1, 50
LARGE, LARGE_TIMES = 2**20, 10
"""How many numbers of 4 bytes are all-reduced, and how often: the same on every rank."""

_RESULT = "result.json"

_CODE = "from rltrain_doctor.child import main; main()"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one attempt."""

    variables: Mapping[str, str]
    """The environment variables that were set for it."""
    result: Mapping[str, Any] | None = None
    """What `measure` returned; None if the attempt failed."""
    error: str = ""
    """Why it failed."""
    refused: bool = False
    """Whether a rank refused the options, which no variable can fix."""
    hung: bool = False
    """Whether it timed out."""
    wall: float = 0.0
    """Wall time in seconds."""
    ranks_at: Mapping[int, str] = field(default_factory=dict)
    """What each rank was doing when the attempt timed out."""

    @property
    def works(self) -> bool:
        """Whether all ranks met and got the correct sums."""
        return self.result is not None and all(rank["right"] for rank in self.result["ranks"])


def try_ranks(
    placement: Placement, world: World | None, variables: Mapping[str, str], timeout: float
) -> Outcome:
    """Start the ranks, or join as `world`, in a child process, with these environment variables.

    After `timeout` seconds, all processes are ended.
    """
    with private_folder() as folder:
        # Nodes that do not meet must say so before the time is over.
        patience = min(placement.join_timeout, max(1, int(timeout * 0.7)))
        given = {**asdict(placement), "log_root": str(folder), "join_timeout": patience}
        arguments = {"placement": given, "world": world and asdict(world)}
        began = time.monotonic()
        with (folder / "output").open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE, json.dumps(arguments)],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # So that everything it starts can be ended with it.
                start_new_session=True,
            )
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            files = sorted((int(file.stem), file) for file in folder.glob("*.stage"))
            at = {rank: file.read_text() for rank, file in files}
            text = f"no answer within {timeout:g} s"
            return Outcome(variables, error=text, hung=True, wall=timeout, ranks_at=at)
        finally:
            _end(process)
        wall, status = time.monotonic() - began, process.returncode
        if status == 0 and (folder / _RESULT).exists():
            return Outcome(variables, json.loads((folder / _RESULT).read_text()), wall=wall)
        text = (folder / "output").read_text(errors="replace").strip()
        # The doctor has a flag of its own.
        text = text.replace("(--join-timeout)", f"(of --timeout {timeout:g})")
        error = text or f"ended with status {status} without output"
        return Outcome(variables, error=error, refused=status == 2, wall=wall)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End everything that still runs, after giving the process time to end its ranks."""
    if process.poll() is None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)


def main() -> None:
    """Run in the child process; errors go to its output."""
    end_with_parent(signal.SIGTERM)
    arguments = json.loads(sys.argv[1])
    given: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in arguments["placement"].items()
    }
    placement, rank = Placement(**given), arguments["world"]
    world = World(**rank) if rank is not None else None
    work = functools.partial(_meet, has_launcher=world is None)
    try:
        on_placement(placement, world, discover(placement.no_plugins), work)
    except RltrainError as error:
        print(error)
        raise SystemExit(error.exit_code) from None


def _meet(placement: Placement, world: World, log: RankLog, *, has_launcher: bool) -> None:
    """Make the process group as a training run does, and measure it. Collective."""
    folder = Path(placement.log_root)
    registry = discover(placement.no_plugins)
    spec = registry.get(BackendSpec, placement.backend)

    def note(stage: str) -> None:
        """Write down what this rank is doing, to be reported if it hangs."""
        with whole(folder / f"{world.rank}.stage") as partial:
            partial.write_text(stage)

    note("loads the backend")
    load_object(spec.factory)
    named = usual_of(registry, spec.framework, "arrays", spec.name)
    arrays: Arrays | None = load_object(named)() if named else None
    note("makes the process group")
    with process_group(placement, world, spec) as group:
        if has_launcher and placement.device_kind == "cpu":
            bind_cores(world)
        note("is in the first all-reduce")
        result = measure(group, arrays)
        note("leaves the process group")
    note("is done")
    # Every rank writes: ranks that were started elsewhere each have their own folder.
    with whole(folder / _RESULT) as partial:
        partial.write_text(json.dumps(result))


def measure(group: ProcessGroup, arrays: Arrays | None = None) -> dict[str, Any]:
    """All-reduce numbers whose sum is known, and measure the time. Collective."""
    import numpy as np

    def vector(size: int) -> Any:
        filled = np.full(size, group.rank + 1, np.float32)
        return filled if arrays is None else arrays.from_host(filled, group.device)

    def seconds(size: int, times: int) -> float:
        """Return the time of one all-reduce, until the host can read the result."""
        # The maximum, because repeated sums would soon overflow.
        x = group.all_reduce(vector(size), "max")
        group.barrier()
        began = time.perf_counter()
        for _ in range(times):
            x = group.all_reduce(x, "max")
            float(x[0])
        return (time.perf_counter() - began) / times

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
    small, large = seconds(SMALL, SMALL_TIMES), seconds(LARGE, LARGE_TIMES)
    return {
        "expected": right,
        "found": [list(pair) for pair in found],
        "ranks": group.gather_objects(own),
        "latency_ms": small * 1e3,
        "large_bytes": 4 * LARGE,
        "large_ms": large * 1e3,
        "bandwidth_gb_s": 4 * LARGE / large / 1e9,
    }
