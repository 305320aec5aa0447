"""Failure reports, which a rank writes for its launcher."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rltrain.errors import PeerLost, RankFailed, RltrainError, UsageError

__all__ = [
    "Report",
    "ended_by_signal",
    "failure",
    "forget_reports",
    "log_path",
    "make_report",
    "read_reports",
    "write_report",
]

Kind = Literal["usage", "error", "peer_lost"]

_PEER_LOST = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection refused",
    "Broken pipe",
    "connection was lost",
    "remote process exited",
    "NCCL communicator was aborted",
    "Socket closed",
    "recvValue failed",
)
"""Error texts of gloo, NCCL and the rendezvous when another rank is gone: never the root cause."""

_JAX_COLLECTIVE = re.compile(r"[A-Z_]+: Gloo [\w -]+ failed: ")
"""How jax's messages of gloo errors begin. Their exception types vary; ValueError is one."""

LOG_LINES = 20


@dataclass(frozen=True)
class Report:
    """One rank's failure."""

    rank: int
    time: float
    """Seconds since the epoch."""
    kind: Kind
    """usage: the user's mistake; peer_lost: a consequence of another rank's failure."""
    message: str
    traceback: str


def make_report(rank: int, error: BaseException) -> Report:
    """Describe an exception."""
    text = str(error)
    kind: Kind = "error"
    if isinstance(error, UsageError):
        kind = "usage"
    elif isinstance(error, (RuntimeError, OSError)) or _JAX_COLLECTIVE.match(text):
        kind = "peer_lost" if any(mark in text for mark in _PEER_LOST) else "error"
    lines = "".join(traceback.format_exception(error))
    return Report(rank, time.time(), kind, text or type(error).__name__, lines)


def forget_reports(folder: Path, rank: int, here: range) -> None:
    """Remove the report and log link that a rank left before its launcher restarted it.

    Args:
        folder: where the ranks of this node report.
        rank: the rank that starts.
        here: the ranks of this node. Those of others are removed, too: where nodes come and go,
            they are this node's, from when it had another number.
    """
    for path in folder.glob("rank_*.*"):
        number = int(path.stem.removeprefix("rank_"))
        if number == rank or number not in here:
            path.unlink(missing_ok=True)


def write_report(folder: Path, report: Report) -> None:
    """Write a report so that the launcher reads it whole or not at all."""
    partial = folder / f".rank_{report.rank}.json"
    partial.write_text(json.dumps(asdict(report)))
    os.replace(partial, folder / f"rank_{report.rank}.json")


def read_reports(folder: Path) -> list[Report]:
    """Return all reports, the earliest first; lost peers, which are consequences, come last."""
    reports = [Report(**json.loads(path.read_text())) for path in folder.glob("rank_*.json")]
    return sorted(reports, key=lambda report: (report.kind == "peer_lost", report.time))


def log_path(folder: Path, rank: int) -> Path:
    """Return the first path of a rank's log; see `rltrain.launch.rank_log.RankLog.move`."""
    return folder / f"rank_{rank}.log"


def failure(folder: Path, rank: int | None, exit_code: int) -> RltrainError:
    """Return the error with which a run ends.

    Args:
        folder: where the ranks wrote their reports and started their logs.
        rank: the rank whose process ended first, if known.
        exit_code: its exit status; negative for the signal that killed it. The run gets the same
            status, or 128 plus the signal's number, as in shells.
    """
    status = exit_code if exit_code > 0 else 128 - exit_code if exit_code < 0 else 1
    reports = read_reports(folder)
    own = next((report for report in reports if report.rank == rank), None)
    first = reports[0] if reports else None
    if rank is not None and own is None and (first is None or first.kind == "peer_lost"):
        return RankFailed(_without_report(folder, rank, exit_code), rank=rank, exit_code=status)
    if first is None:
        message = f"A rank failed with exit code {exit_code}."
        return RankFailed(message, rank=None, exit_code=status)
    if first.kind == "usage":
        return UsageError(first.message)
    log = log_path(folder, first.rank).resolve()
    headline, kind = f"Rank {first.rank} failed.", RankFailed
    if first.kind == "peer_lost":
        headline += " It lost a peer: the cause is on another node, in its launcher's output."
        kind = PeerLost
    where = f" Its log: {log}" if log.exists() and not log.is_relative_to(folder.resolve()) else ""
    return kind(f"{headline}{where}\n\n{first.traceback.rstrip()}", rank=first.rank)


def ended_by_signal(number: signal.Signals) -> BaseException:
    """Return the error of a run whose launcher received a signal."""
    if number == signal.SIGINT:
        return KeyboardInterrupt()
    message = f"The launcher received {number.name} and ended the run."
    return RankFailed(message, rank=None, exit_code=128 + number)


def _without_report(folder: Path, rank: int, exit_code: int) -> str:
    """Describe the end of a rank that wrote no report."""
    if exit_code < 0:
        known = {number.value: number.name for number in signal.Signals}
        name = known.get(-exit_code, f"signal {-exit_code}")
        text = f"Rank {rank} was killed by {name}."
        if name == "SIGKILL":
            text += " If nobody killed it by hand, the machine may have run out of memory."
    else:
        text = f"Rank {rank} exited with code {exit_code} without an exception."
    log = log_path(folder, rank).resolve()
    if not log.exists():
        return text
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    return f"{text} The end of its log, {log}:\n\n" + "\n".join(lines or ["(it is empty)"])
