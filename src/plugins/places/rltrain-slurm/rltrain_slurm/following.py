"""Follows a job: its state, as SLURM reports it, and its output, as it is written."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from rltrain.errors import RankFailed

_OUTPUT, _STATE = 1.0, 10.0
"""Seconds between two reads of the output, and at most between two of the state: that of a new job
is read more often."""

_ANSWER_TIMEOUT = 30.0
"""Seconds for an answer of SLURM's commands."""

_CANCEL_TIMEOUT = 60.0
"""Seconds until a canceled job must have ended."""

_ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "REVOKED", "TIMEOUT"),
)
"""States of a job that has ended; see squeue's manual. One that was preempted is queued again."""


@dataclass
class Job:
    """A submitted job."""

    number: str
    output: Path
    """What the task of node 0 prints."""
    state: str = "PENDING"
    """As SLURM last reported it; "" if it knows the job no longer."""
    exit_code: int = 0
    _read: int = field(default=0, repr=False)

    @property
    def ended(self) -> bool:
        """Whether it has ended for good."""
        return self.state in _ENDED or self.state == ""

    def ask(self) -> str:
        """Ask SLURM for the state, and return it with its reason or nodes, for the user."""
        done = _command("scontrol", "show", "job", "--oneliner", self.number)
        if done.returncode and "Invalid job id" not in done.stderr:
            return self.state  # The controller may be away for a while.
        found = dict(re.findall(r"(\w+)=(\S+)", done.stdout))
        self.state = found.get("JobState", "")
        status, _, number = found.get("ExitCode", "0:0").partition(":")
        self.exit_code = 128 + int(number) if number != "0" else int(status)
        where = found.get("NodeList") if self.state == "RUNNING" else found.get("Reason")
        return f"{self.state} ({where})" if where not in (None, "None", "(null)") else self.state

    def cancel(self) -> None:
        """Cancel it."""
        _command("scancel", self.number)

    def show_output(self) -> None:
        """Print what is new, without submitit's own lines."""
        if not self.output.exists():
            return
        with self.output.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            if not line.startswith("submitit "):
                print(line, flush=True)


def follow(job: Job, *, cancel: bool) -> None:
    """Print a job's states and output until it has ended. `cancel` lets Ctrl-C cancel it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # The command's, until ranks train.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _watch(job)
    except KeyboardInterrupt:
        if cancel:
            job.cancel()
            _watch(job, _CANCEL_TIMEOUT)
        else:
            print(f"\njob {job.number} continues. To end it: scancel {job.number}", flush=True)
        raise
    if job.state not in ("COMPLETED", ""):  # Of a job that SLURM has forgotten, its result says.
        output = f"Its output: {job.output}"
        if not job.output.exists():
            output += (
                " (which is not here: if the job has run, that folder is on no disk that all nodes "
                "have; choose one with slurm.folder=DIR)"
            )
        raise RankFailed(
            f"Job {job.number} ended as {job.state}. {output}",
            exit_code=job.exit_code or 1,
        )


def _watch(job: Job, timeout: float = float("inf")) -> None:
    """Wait until a job has ended, or for so many seconds."""
    start = asked = time.monotonic()
    shown = ""
    while not job.ended and (now := time.monotonic()) - start < timeout:
        if now - asked >= min(_STATE, (now - start) / 10):
            asked, state = now, job.ask()
            if state != shown:
                print(f"job {job.number}: {state or 'ended'}", flush=True)
            shown = state
        job.show_output()
        time.sleep(_OUTPUT)
    job.show_output()


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, capture_output=True, text=True, timeout=_ANSWER_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(words, 1, "", str(error))
