"""What runs inside the job, once on each node."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from submitit.helpers import DelayedSubmission

from rltrain.errors import RankFailed, RltrainError
from rltrain.types import TrainResult

_FRUITLESS = 2
"""How often in a row a job is queued again without a new checkpoint."""

_AGAIN = (75, 128 + signal.SIGTERM)
"""Exit statuses of a run that was asked to end: after an iteration, and before training began."""


@dataclass(frozen=True)
class NodeOfJob:
    """Starts a node's ranks. SLURM may queue the job again, and then the run continues."""

    work: Callable[..., TrainResult]
    """See `rltrain.types.Launcher.launch`."""
    run_name: str | None
    """That of the user."""
    log_root: str = "logs"
    """Folder with the run folders."""
    grace: float = 120.0
    """Seconds from SLURM's signal to the time limit."""
    seed: int | None = None
    """That of this job; None for the run's own."""
    newest: float = 0.0
    """When the newest checkpoint was written, as of the last time that the job was queued again."""
    fruitless: int = 0
    """How often in a row it was queued again without a new one."""

    def __call__(self) -> TrainResult:
        """Run the node's part. After a failure, the task ends with the failure's exit status."""
        # submitit logs each signal in its handler. If the next signal raises there, `logging`
        # swallows the exception, and the job would not end.
        logging.getLogger("submitit").setLevel(logging.ERROR)
        ending = _Ending(self.grace)
        try:
            own = {} if self.seed is None else {"seed": self.seed}
            result = self.work({"run_name": self._name, "auto_resume": True, **own})
            ending.over(result.exit_code)
            return result
        except RltrainError as error:
            try:
                ending.over(error.exit_code)
            except RltrainError as in_vain:
                error = in_vain
            # As on the command line: no traceback of this process.
            print(f"rltrain: {error}", flush=True)
            raise SystemExit(error.exit_code) from None
        finally:
            ending.forget()

    @property
    def _name(self) -> str:
        """The name that all attempts of a job share."""
        job = f"slurm-{os.environ['SLURM_JOB_ID']}"
        return f"{self.run_name}_{job}" if self.run_name else job

    def checkpoint(self) -> DelayedSubmission:
        """Return what to run when the job is queued again. submitit calls it before that.

        The run continues from its own checkpoints.
        """
        written = Path(self.log_root).glob(f"*/*/*_{self._name}/checkpoints/*")
        newest = max((path.stat().st_mtime for path in written), default=0.0)
        fruitless = 0 if newest > self.newest else self.fruitless + 1
        if fruitless > _FRUITLESS:
            raise RankFailed(
                f"The job was queued again {_FRUITLESS} times and wrote no new checkpoint: it is "
                "not queued again. Give it more time (slurm.time), or save more often "
                "(--checkpoint-interval 10m)."
            )
        return DelayedSubmission(dataclasses.replace(self, newest=newest, fruitless=fruitless))


class _Ending:
    """Ends the run with a checkpoint when SLURM announces the time limit.

    Then it lets submitit queue the job again. By itself, submitit does so at once, and all that
    was learned since the last checkpoint is lost.
    """

    def __init__(self, grace: float) -> None:
        """Replace submitit's handler of the signal, `grace` seconds before the time limit."""
        self._announced = threading.Event()
        # What it does then takes some seconds.
        self._latest = threading.Timer(grace - min(30.0, grace / 2), self._too_late)
        self._latest.daemon = True
        self._queue_again = signal.getsignal(signal.SIGUSR2)
        if callable(self._queue_again):  # Only in a job.
            signal.signal(signal.SIGUSR2, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """Ask the ranks to end after their iteration: launchers take SIGTERM for that."""
        if not self._announced.is_set():
            self._announced.set()
            self._latest.start()
            os.kill(os.getpid(), signal.SIGTERM)

    def over(self, exit_code: int) -> None:
        """Queue the job again if that is why the run has ended; then it does not return."""
        self._latest.cancel()
        if self._announced.is_set() and exit_code in _AGAIN:
            self._again()

    def forget(self) -> None:
        """Wait no longer for the run, and let a signal that comes at the end change nothing."""
        self._latest.cancel()
        if callable(self._queue_again):
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)

    def _too_late(self) -> None:
        print("rltrain: the run has not ended in time, and continues from its last checkpoint")
        try:
            self._again()
        except RltrainError as error:
            print(f"rltrain: {error}", flush=True)

    def _again(self) -> None:
        assert callable(self._queue_again), "there was a signal, so this is a job"
        try:
            self._queue_again(signal.SIGUSR2, None)
        except subprocess.CalledProcessError as error:
            # submitit queues the job again by scontrol. SLURM then ends all processes of the job,
            # sometimes scontrol too, before it has its answer.
            if error.cmd[0] != "scontrol" or error.returncode != -signal.SIGTERM:
                raise
            raise SystemExit(255) from None  # As submitit does.
