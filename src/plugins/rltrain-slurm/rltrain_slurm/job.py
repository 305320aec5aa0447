"""What runs inside the job, once on each node."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import resource_tracker

from submitit.helpers import DelayedSubmission

from rltrain.errors import RltrainError
from rltrain.launch import SECRET
from rltrain.types import TrainResult

__all__ = ["NodeOfJob", "run_name"]


def run_name(given: str | None, job: str) -> str:
    """Return the name that all attempts of a job share."""
    return f"{given}_slurm-{job}" if given else f"slurm-{job}"


@dataclass(frozen=True)
class NodeOfJob:
    """Starts a node's ranks. SLURM may queue the job again, and then it goes on."""

    work: Callable[..., TrainResult]
    """See `rltrain.types.Launcher.launch`."""
    run_name: str | None
    """That of the user."""
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    """By which the job's nodes know each other, unless the user has set one."""

    def __call__(self) -> TrainResult:
        """Run the node's part. After a failure, the task ends with the failure's exit status."""
        name = run_name(self.run_name, os.environ["SLURM_JOB_ID"])
        os.environ.setdefault(SECRET, self.secret)
        _start_resource_tracker()
        # submitit logs each signal in its handler. If the next signal raises there, as SIGTERM does
        # in torch elastic, `logging` swallows the exception, and the job would not end.
        logging.getLogger("submitit").setLevel(logging.ERROR)
        try:
            return self.work({"run_name": name, "auto_resume": True})
        except RltrainError as error:
            # As on the command line: no traceback of this process.
            print(f"rltrain: {error}", flush=True)
            raise SystemExit(error.exit_code) from None
        except subprocess.CalledProcessError as error:
            # submitit queues the job again by scontrol. SLURM then ends all processes of the job,
            # sometimes scontrol too, before it has its answer.
            if error.cmd[0] != "scontrol" or error.returncode != -signal.SIGTERM:
                raise
            raise SystemExit(255) from None  # As submitit does.

    def checkpoint(self) -> DelayedSubmission:
        """Return what to run when the job is queued again. submitit calls it before the time limit.

        The run's own checkpoints are what it goes on from.
        """
        return DelayedSubmission(self)


def _start_resource_tracker() -> None:
    """Start Python's resource tracker so that it outlives SLURM's signal to all processes.

    Otherwise the first process that uses it afterwards prints a traceback for each semaphore.
    """
    handler = signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # What it starts inherits that.
    try:
        resource_tracker.ensure_running()
    finally:
        signal.signal(signal.SIGUSR2, handler)
