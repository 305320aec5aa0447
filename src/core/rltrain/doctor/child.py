"""A process that starts ranks to be looked at, or joins as one, and may hang or die of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rltrain.config import Placement
from rltrain.doctor.probe import RESULT, meet, stages, work
from rltrain.errors import RltrainError
from rltrain.plugins.options import make_plugin
from rltrain.plugins.registry import discover
from rltrain.run.worker import run_here
from rltrain.specs import LauncherSpec
from rltrain.types import World

__all__ = ["Outcome", "main", "try_ranks"]

GRACE = 10.0
"""Seconds in which the processes are to end by themselves once they are told to."""

_CODE = "from rltrain.doctor.child import main; main()"


@dataclass(frozen=True)
class Outcome:
    """What became of one try."""

    variables: Mapping[str, str]
    """What was set for it."""
    result: Mapping[str, Any] | None = None
    """What `rltrain.doctor.probe.measure` returned; None if it did not come to that."""
    error: str = ""
    """Why not."""
    refused: bool = False
    """Whether a rank refused what was asked for, which no variable changes."""
    hung: bool = False
    """Whether it was ended because its time was over."""
    wall: float = 0.0
    """Seconds that it took."""
    ranks_at: Mapping[int, str] = field(default_factory=dict)
    """What each rank was doing at the end of one that hung."""

    @property
    def works(self) -> bool:
        """Whether all ranks met, and got the right sums."""
        return self.result is not None and all(rank["right"] for rank in self.result["ranks"])


def try_ranks(
    placement: Placement, world: World | None, variables: Mapping[str, str], timeout: float
) -> Outcome:
    """Start the ranks, or join as one, in a process of its own.

    Args:
        placement: where the run runs.
        world: the place to join at; None starts ranks.
        variables: put into their environment, before what is there.
        timeout: in seconds; then all of it is ended.
    """
    with tempfile.TemporaryDirectory(prefix="rltrain-") as name:
        folder = Path(name)
        given = {**asdict(placement), "log_root": name}
        told = {"placement": given, "world": world and asdict(world)}
        began = time.monotonic()
        with (folder / "said").open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-c", _CODE, json.dumps(told)],
                env={**os.environ, **variables},
                stdin=subprocess.PIPE,  # Closed when this process ends, however it ends.
                stdout=said,
                stderr=said,
                # Of its own: so that all that it starts can be ended.
                start_new_session=True,
            )
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            at, text = stages(folder), f"no answer within {timeout:g} s"
            return Outcome(variables, error=text, hung=True, wall=timeout, ranks_at=at)
        finally:
            _end(process)
        wall, status = time.monotonic() - began, process.returncode
        if status == 0 and (folder / RESULT).exists():
            return Outcome(variables, json.loads((folder / RESULT).read_text()), wall=wall)
        text = (folder / "said").read_text(errors="replace").strip()
        error = text or f"ended with status {status} and said nothing"
        return Outcome(variables, error=error, refused=status == 2, wall=wall)


def main() -> None:
    """Be that process; what went wrong is told on its output."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    told = json.loads(sys.argv[1])
    given: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in told["placement"].items()
    }
    placement, world = Placement(**given), told["world"]
    try:
        if world is not None:
            run_here(placement, World(**world), meet)
            return
        assert placement.launcher is not None, "ranks that are to be started have a launcher"
        spec = discover(placement.no_plugins).get(LauncherSpec, placement.launcher)
        make_plugin(spec, placement.plugins).launch(placement, work)
    except RltrainError as error:
        print(error)
        raise SystemExit(error.exit_code) from None


def _end_with_parent() -> None:
    os.read(0, 1)  # Nothing is ever written: this is the end.
    os.kill(os.getpid(), signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what still runs: the process gets the time to end its ranks, its session does not."""
    assert process.stdin is not None
    if process.poll() is None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
    process.stdin.close()
