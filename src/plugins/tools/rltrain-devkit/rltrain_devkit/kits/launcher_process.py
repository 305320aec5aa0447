"""The launcher's own process in its kit, and the work of the ranks that it starts."""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rltrain
from rltrain.config import Placement
from rltrain.errors import UsageError
from rltrain.launch import RankLog, hide_rank_variables, whole
from rltrain.options import RunOptions
from rltrain.plugins import discover
from rltrain.records import Scalars
from rltrain.session import Session
from rltrain.specs import ObserverSpec, Spec
from rltrain.types import TrainResult, World
from rltrain.work import on_placement, place_run

ITERATIONS = 7
"""What rank 0 returns."""

OUTCOME = "outcome.json"
"""The file with what came of a launch."""

PLANTED = "planted in rank 1"
"""What rank 1 raises."""

REFUSAL = "--planted: is refused by rank 1."
"""The user's mistake that rank 1 finds."""

CASES = ("returns", "raises", "dies", "refuses", "waits", "hangs", "saves")
"""What rank 1 does; in some, ranks train."""

TRAINED = ("hangs", "saves")
SIGNALED = ("waits", "saves")
"""The cases in which the launcher's process is sent SIGTERM."""

_VARIABLES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT"),
)

_PATIENCE = 60.0
"""Seconds that ranks wait for what never comes: a launcher ends them before."""

_GRACE = 5.0
"""Seconds in which processes that have been ended are gone."""


def main() -> None:
    """Launch one case, and write what came of it."""
    launcher, options, folder, case = sys.argv[1:]
    there, given = Path(folder), json.loads(options)
    hide_rank_variables(os.environ)
    outcome: dict[str, Any] = {}
    status: Any = 0
    try:
        if case in TRAINED:
            found: Any = _train(launcher, given, there, hangs=case == "hangs")
        else:
            registry, work = discover(), functools.partial(_work, case, there)
            requested = RunOptions(launcher=launcher, distributed=True, **given)
            found = on_placement(place_run(requested, registry, {})[0], None, registry, work)
        outcome = {"result": getattr(found, "iterations", repr(found))}
    except (Exception, SystemExit) as error:
        status = getattr(error, "exit_code", getattr(error, "code", 1))
        outcome = {"error": type(error).__name__, "message": str(error)}
    with whole(there / OUTCOME) as partial:
        partial.write_text(json.dumps({**outcome, "alive": alive(there)}))
    raise SystemExit(status)


def _work(
    case: str, folder: Path, config: Placement, world: World, log: RankLog
) -> TrainResult | None:
    """Return, or let rank 1 do something once all ranks are there, while the others wait."""
    _arrive(folder, world)
    if case == "returns":
        return TrainResult(ITERATIONS + world.rank, 0, None, None, run_dir="")
    if world.rank == 1 and case == "raises":
        raise ValueError(PLANTED)
    if world.rank == 1 and case == "refuses":
        raise UsageError(REFUSAL)
    if world.rank == 1 and case == "dies":
        os._exit(3)
    time.sleep(_PATIENCE)
    return None


def _train(launcher: str, options: dict[str, Any], folder: Path, hangs: bool) -> TrainResult:
    """Train until rank 1 hangs, or a signal comes."""
    usual: dict[str, Any] = {"num_envs": 8, "max_iterations": 10**6, "writers": ()}
    return rltrain.train(
        **{**usual, **options},
        launcher=launcher,
        distributed=True,
        plugins=[sys.modules[__name__]],
        observers=["launcher_kit"],
        launcher_kit={"folder": str(folder), "hangs": hangs},
        hang_timeout={"start": _PATIENCE, "step": 4.0},
        log_root=str(folder / "logs"),
    )


@dataclass(frozen=True)
class Watched:
    """Options of the observer in the cases that train."""

    folder: str = ""
    """Where ranks write that they are there."""
    hangs: bool = False
    """Whether rank 1 hangs after its first iteration."""


class Watcher:
    """Notes that the ranks train."""

    def __init__(self, options: Watched) -> None:
        """Take the options."""
        self._options = options

    @rltrain.hookimpl(wrapper=True)
    def rltrain_train(self, session: Session) -> Any:
        """Watch what each rank records."""
        record = session.record

        def recorded(each: Any) -> Any:
            found = record(each)
            if isinstance(each, Scalars):
                _arrive(Path(self._options.folder), session.world)
                if self._options.hangs and session.world.rank == 1:
                    time.sleep(2 * _PATIENCE)
            return found

        session.record = recorded  # type: ignore[assignment,method-assign]
        return (yield)


@rltrain.hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the observer, for the ranks of a kit."""
    here = f"{__name__}:"
    return [ObserverSpec(name="launcher_kit", factory=f"{here}Watcher", options=f"{here}Watched")]


def arrived(folder: Path) -> dict[str, Any]:
    """Return what each rank has written of itself, by rank."""
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("[0-9]*.rank")}


def alive(folder: Path) -> list[str]:
    """Return the ranks whose processes are still there after a while."""
    ranks, deadline = arrived(folder), time.monotonic() + _GRACE
    while left := [rank for rank in sorted(ranks) if _runs(ranks[rank]["pid"])]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return left


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _arrive(folder: Path, world: World) -> None:
    """Write down this rank's process and variables, and wait until all ranks have done so."""
    found = {name: os.environ.get(name) for name in _VARIABLES}
    facts = {"pid": os.getpid(), "variables": found, "listens": _listens()}
    with whole(folder / f"{world.rank}.rank") as partial:
        partial.write_text(json.dumps(facts))
    deadline = time.monotonic() + _PATIENCE
    while len(arrived(folder)) < world.world_size and time.monotonic() < deadline:
        time.sleep(0.02)


def _listens() -> bool:
    """Return whether this process can listen where the ranks meet, which rank 0 may do."""
    if os.environ.get("RANK") != "0":
        return True
    try:
        port = int(os.environ.get("MASTER_PORT", ""))
        with socket.create_server((os.environ.get("MASTER_ADDR", ""), port)):
            return True
    except (OSError, ValueError):
        return False
