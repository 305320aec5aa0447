"""A child process that starts test ranks, or joins as one: it may hang or crash."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rltrain.config import Placement
from rltrain.errors import RltrainError
from rltrain.launch import private_folder
from rltrain.plugins import discover
from rltrain.types import World
from rltrain.work import on_placement
from rltrain_doctor.probe import RESULT, meet, stages

GRACE = 10.0
"""Seconds that the processes get to end after SIGTERM."""

TELL = 10.0
"""Seconds between two lines on what the ranks are doing."""

_CODE = "from rltrain_doctor.child import main; main()"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one attempt."""

    variables: Mapping[str, str]
    """The environment variables that were set for it."""
    result: Mapping[str, Any] | None = None
    """What `rltrain_doctor.probe.measure` returned; None if the attempt failed."""
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
    placement: Placement,
    world: World | None,
    variables: Mapping[str, str],
    timeout: float,
    report: Callable[[str], None],
) -> Outcome:
    """Start the ranks, or join as one, in a child process.

    Args:
        placement: where the run runs.
        world: the rank that it joins as; None starts ranks.
        variables: environment variables for the ranks; they override existing ones.
        timeout: in seconds; then all processes are ended.
        report: called from time to time with what the ranks are doing.
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
                stdin=subprocess.PIPE,  # Closed when this process ends, however it ends.
                stdout=output,
                stderr=output,
                # So that everything it starts can be ended with it.
                start_new_session=True,
            )
        try:
            _wait(process, timeout, folder, report)
        except subprocess.TimeoutExpired:
            at, text = stages(folder), f"no answer within {timeout:g} s"
            return Outcome(variables, error=text, hung=True, wall=timeout, ranks_at=at)
        finally:
            _end(process)
        wall, status = time.monotonic() - began, process.returncode
        if status == 0 and (folder / RESULT).exists():
            return Outcome(variables, json.loads((folder / RESULT).read_text()), wall=wall)
        text = (folder / "output").read_text(errors="replace").strip()
        # The doctor has a flag of its own.
        text = text.replace("(--join-timeout)", f"(of --timeout {timeout:g})")
        error = text or f"ended with status {status} without output"
        return Outcome(variables, error=error, refused=status == 2, wall=wall)


def _wait(
    process: subprocess.Popen[bytes], timeout: float, folder: Path, report: Callable[[str], None]
) -> None:
    """Wait for the process as `Popen.wait` does, and tell from time to time how far ranks are."""
    began = time.monotonic()
    while (left := began + timeout - time.monotonic()) > TELL:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TELL)
            return
        report(f"after {time.monotonic() - began:.0f} s: {told(stages(folder))}")
    process.wait(max(left, 0))


def told(ranks_at: Mapping[int, str]) -> str:
    """Return what each rank is doing, in words."""
    return "; ".join(f"rank {rank} {at}" for rank, at in ranks_at.items()) or "no rank has started"


def main() -> None:
    """Run in the child process; errors go to its output."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    arguments = json.loads(sys.argv[1])
    given: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in arguments["placement"].items()
    }
    placement, rank = Placement(**given), arguments["world"]
    world = World(**rank) if rank is not None else None
    work = functools.partial(meet, has_launcher=world is None)
    try:
        on_placement(placement, world, discover(placement.no_plugins), work)
    except RltrainError as error:
        print(error)
        raise SystemExit(error.exit_code) from None


def _end_with_parent() -> None:
    os.read(0, 1)  # Nothing is ever written: this returns when the parent ends.
    os.kill(os.getpid(), signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End everything that still runs, after giving the process time to end its ranks."""
    assert process.stdin is not None
    if process.poll() is None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
    process.stdin.close()
