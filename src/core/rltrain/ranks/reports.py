"""Failure reports, which a rank writes for its launcher."""

from __future__ import annotations

import json
import re
import signal
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from rltrain.errors import PeerLost, RankFailed, RltrainError, UsageError
from rltrain.files.disk import whole
from rltrain.files.secrets import hide_in_text
from rltrain.ranks.folders import Notes
from rltrain.ranks.guarded import NO_GUARD, UNGUARDED
from rltrain.ranks.logs import older
from rltrain.ranks.pulse import read_pulses

Kind = Literal["usage", "error", "peer_lost", "hang"]

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

_LOG_BYTES = 64 << 10

_CRASH = "Fatal Python error:"
"""How faulthandler begins; the innermost calls follow."""


@dataclass(frozen=True)
class Report:
    """One rank's failure."""

    rank: int
    time: float
    """Seconds since the epoch."""
    kind: Kind
    """usage: the user's mistake; peer_lost: a consequence of another rank's failure; hang: the
    launcher has found the rank without progress, and wrote this."""
    message: str
    traceback: str
    headline: str = ""
    """The exception's type, and the first line of its message."""
    may_restart: bool = True
    """Whether ranks that start again may get further."""
    exit_code: int = 1
    """The exit status of the rank, and of a run that ends with this failure."""


def make_report(
    rank: int, error: BaseException, options: Mapping[str, Any] = MappingProxyType({})
) -> Report:
    """Describe a rank's exception, without secrets of the run's options that it may repeat."""
    text = hide_in_text(str(error), options)
    kind: Kind = "error"
    if isinstance(error, UsageError):
        kind = "usage"
    elif isinstance(error, PeerLost):
        kind = "peer_lost"
    elif isinstance(error, (RuntimeError, OSError)) or _JAX_COLLECTIVE.match(text):
        kind = "peer_lost" if any(mark in text for mark in _PEER_LOST) else "error"
    lines = hide_in_text("".join(traceback.format_exception(error)), options)
    # Code that calls sys.exit(3) means it.
    code = error.code if isinstance(error, SystemExit) else getattr(error, "exit_code", 1)
    name = type(error).__name__
    return Report(
        rank,
        time.time(),
        kind,
        text or name,
        lines,
        headline=": ".join(filter(None, [name, text.partition("\n")[0]])),
        may_restart=getattr(error, "may_restart", True),
        exit_code=code if isinstance(code, int) and 0 < code < 256 else 1,
    )


def write_report(folder: Path, report: Report) -> None:
    """Write a report so that the launcher reads it whole or not at all."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # It may have been cleaned.
    with whole(folder / f"rank_{report.rank}.json") as partial:
        partial.write_text(json.dumps(asdict(report)))


def read_reports(folder: Path) -> list[Report]:
    """Return all reports, the earliest first; lost peers, which are consequences, come last."""
    reports = [Report(**json.loads(path.read_text())) for path in folder.glob("rank_*.json")]
    return sorted(reports, key=lambda report: (report.kind == "peer_lost", report.time))


def log_path(folder: Path, rank: int) -> Path:
    """Return the first path of a rank's log; see `rltrain.ranks.logs.RankLog.move`."""
    return folder / f"rank_{rank}.log"


def failure(folder: Path, rank: int | None, exit_code: int) -> RltrainError:
    """Return the error with which a run ends, given which rank's process ended first, if known.

    Its exit code is negative for the signal that killed it. The run gets the same status, or 128
    plus the signal's number, as in shells.
    """
    error = _failure(folder, rank, exit_code)
    if Notes(folder).asked[0]:
        error.may_restart = False
    if isinstance(error, RankFailed):
        pulses = read_pulses(folder)
        own = [pulse for rank, pulse in pulses.items() if rank == error.rank]
        done = [pulse.iteration for pulse in own or pulses.values()]
        error.iteration = max(done, default=None)
    return error


def _failure(folder: Path, rank: int | None, exit_code: int) -> RltrainError:
    status = exit_code if exit_code > 0 else 128 - exit_code if exit_code < 0 else 1
    reports = read_reports(folder)
    own = next((report for report in reports if report.rank == rank), None)
    first = reports[0] if reports else None
    if rank is not None and own is None and (first is None or first.kind == "peer_lost"):
        if exit_code == UNGUARDED and not _log(folder, rank).exists():
            return UsageError(NO_GUARD)
        headline = _without_report(rank, exit_code)
        message = headline + _end_of_log(folder, rank, exit_code) + _mismatch(folder)
        if exit_code >= 0 and "\n" in message:  # The cause comes last.
            message += f"\n\n{headline}"
        return RankFailed(message, rank=rank, exit_code=status, headline=headline)
    if first is None:
        message = f"A rank exited with code {exit_code} without an exception."
        return RankFailed(message, exit_code=status)
    if first.kind == "usage":
        refused = UsageError(first.message)
        refused.exit_code = first.exit_code
        return refused
    if first.kind == "hang":
        headline = f"Rank {first.rank} made no progress"
        return RankFailed(first.message, rank=first.rank, headline=headline)
    log = _log(folder, first.rank)
    headline, kind = f"Rank {first.rank} failed.", RankFailed
    if first.kind == "peer_lost":
        headline += f" It lost a peer: {_peer(folder, reports)}"
        kind = PeerLost
    where = f" Its log: {log}" if log.exists() and not log.is_relative_to(folder.resolve()) else ""
    return kind(
        f"{headline}{where}\n\n{first.traceback.rstrip()}{_mismatch(folder)}",
        rank=first.rank,
        headline=f"Rank {first.rank} failed with {first.headline}",
        may_restart=first.may_restart,
        exit_code=first.exit_code,
    )


def _without_report(rank: int, exit_code: int) -> str:
    """Describe the end of a rank that wrote no report."""
    if exit_code >= 0:
        early = "" if exit_code else " Its work was not done."
        return f"Rank {rank} exited with code {exit_code} without an exception.{early}"
    known = {number.value: number.name for number in signal.Signals}
    return f"Rank {rank} was killed by {known.get(-exit_code, f'signal {-exit_code}')}."


def _end_of_log(folder: Path, rank: int, exit_code: int) -> str:
    """Return what helps to find out why a rank ended without a report."""
    killed = " If no one killed it by hand, the machine may have run out of memory."
    text = killed if exit_code == -signal.SIGKILL else ""
    log = _log(folder, rank)
    if not log.exists():
        return text
    found = b"".join(path.read_bytes()[-_LOG_BYTES:] for path in (older(log), log) if path.exists())
    lines = found.decode(errors="replace").splitlines()
    crash = max((at for at, line in enumerate(lines) if line.startswith(_CRASH)), default=None)
    # After a crash in C, where that was.
    lines = lines[-LOG_LINES:] if crash is None else lines[crash:][:LOG_LINES]
    return f"{text} The end of its log, {log}:\n\n" + "\n".join(lines or ["(it is empty)"])


def _peer(folder: Path, reports: list[Report]) -> str:
    """Say which peer the ranks that have reported have lost."""
    reported = {report.rank for report in reports}
    for rank, pulse in read_pulses(folder).items():
        # A rank that is ended while it waits for others is none of the causes.
        if rank not in reported and not pulse.waiting and pulse.phase != "ended":
            where = f"while {pulse.phase}{pulse.when}"
            return f"rank {rank} has ended without an error {where} (log: {_log(folder, rank)})."
    return "the cause is on another node, in its launcher's output."


def _log(folder: Path, rank: int) -> Path:
    return log_path(folder, rank).resolve()


def _mismatch(folder: Path) -> str:
    """Describe the collectives that the ranks were in, if they were in different ones.

    gloo ends a rank that receives more or less than it expects, and says no more than that.
    """
    pulses = read_pulses(folder)
    at = {(pulse.collectives, pulse.call) for pulse in pulses.values()}
    begun = {pulse.collectives for pulse in pulses.values()}
    if not all(pulse.waiting for pulse in pulses.values()) or len(begun) > 1 or len(at) < 2:
        return ""
    calls = [f"\n  rank {rank}: {pulse.call}" for rank, pulse in pulses.items()]
    head = f"\n\nThe ranks took different branches. Their collective {begun.pop()} is, on"
    return head + "".join(calls)
