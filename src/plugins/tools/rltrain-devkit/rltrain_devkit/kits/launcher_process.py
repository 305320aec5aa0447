"""The launcher's own process in its kit, and the work of the ranks that it starts."""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
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

TRAINED = ("hangs", "saves")
"""The cases in which ranks train."""

VARIABLES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT"),
)

_PATIENCE = 60.0
"""Seconds that ranks wait for what never comes: a launcher ends them before."""

_GRACE = 5.0
"""Seconds in which processes that have been ended are gone."""

Work = Callable[[Path, Placement, World, RankLog], TrainResult | None]


def main() -> None:
    """Launch one case after the other, and write what came of each."""
    launcher, options, folder, *cases = sys.argv[1:]
    hide_rank_variables(os.environ)
    requested = RunOptions(launcher=launcher, distributed=True, **json.loads(options))
    registry = discover()
    placement, world = place_run(requested, registry, {})
    assert world is None
    for case in cases:
        there = Path(folder, case)
        there.mkdir()
        outcome: dict[str, Any]
        try:
            found: Any
            if case in TRAINED:
                found = _train(launcher, json.loads(options), there)
            else:
                work = functools.partial(_CASES[case], there)
                found = on_placement(placement, None, registry, work)
            outcome = {"result": getattr(found, "iterations", repr(found)), "status": 0}
        except (Exception, SystemExit) as error:
            outcome = {
                "error": type(error).__name__,
                "message": str(error),
                "usage": isinstance(error, UsageError),
                "status": getattr(error, "exit_code", getattr(error, "code", 1)),
            }
        outcome["alive"] = alive(there)
        with whole(there / OUTCOME) as partial:
            partial.write_text(json.dumps(outcome))
    raise SystemExit(outcome["status"])


def _train(launcher: str, options: dict[str, Any], folder: Path) -> TrainResult:
    """Train until rank 1 hangs, or a signal comes."""
    usual: dict[str, Any] = {"num_envs": 8, "max_iterations": 10**6, "writers": ()}
    return rltrain.train(
        **{**usual, **options},
        launcher=launcher,
        distributed=True,
        plugins=[sys.modules[__name__]],
        observers=["launcher_kit"],
        launcher_kit={"folder": str(folder), "hangs": folder.name == "hangs"},
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
        """Look at what each rank records."""
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


def alive(folder: Path) -> list[int]:
    """Return the ranks whose processes are still there after a while."""
    files = folder.glob("[0-9]*.rank")
    pids = {int(path.stem): json.loads(path.read_text())["pid"] for path in files}
    deadline = time.monotonic() + _GRACE
    while (left := [rank for rank in sorted(pids) if _runs(pids[rank])]) and (
        time.monotonic() < deadline
    ):
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
    found = {name: os.environ.get(name) for name in VARIABLES}
    facts = {"pid": os.getpid(), "variables": found, "listens": _listens()}
    with whole(folder / f"{world.rank}.rank") as partial:
        partial.write_text(json.dumps(facts))
    deadline = time.monotonic() + _PATIENCE
    while len(list(folder.glob("[0-9]*.rank"))) < world.world_size and time.monotonic() < deadline:
        time.sleep(0.02)


def _listens() -> bool:
    """Whether this process can listen where the ranks meet, which rank 0 may do."""
    if os.environ.get("RANK") != "0":
        return True
    try:
        port = int(os.environ.get("MASTER_PORT", ""))
        with socket.create_server((os.environ.get("MASTER_ADDR", ""), port)):
            return True
    except (OSError, ValueError):
        return False


def _returns(folder: Path, config: Placement, world: World, log: RankLog) -> TrainResult:
    _arrive(folder, world)
    return TrainResult(ITERATIONS + world.rank, 0, None, None, run_dir="")


def _meets(
    rank_1: Callable[[], None], folder: Path, config: Placement, world: World, log: RankLog
) -> None:
    """Let rank 1 do something once all ranks are there; the others wait."""
    _arrive(folder, world)
    if world.rank == 1:
        rank_1()
    time.sleep(_PATIENCE)


def _raises() -> None:
    raise ValueError(PLANTED)


def _refuses() -> None:
    raise UsageError(REFUSAL)


_CASES: dict[str, Work] = {
    "returns": _returns,
    "raises": functools.partial(_meets, _raises),
    "dies": functools.partial(_meets, functools.partial(os._exit, 3)),
    "refuses": functools.partial(_meets, _refuses),
    "waits": functools.partial(_meets, lambda: None),
}
