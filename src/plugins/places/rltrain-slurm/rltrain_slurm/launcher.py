"""The launcher `slurm`: submits the run with submitit, and follows the job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError

from rltrain.config import Placement
from rltrain.errors import RankFailed, UsageError
from rltrain.types import TrainResult
from rltrain_slurm.following import Job, follow
from rltrain_slurm.job import NodeOfJob
from rltrain_slurm.plugin import SlurmOptions, minutes, sbatch_flags

_DISK_TIMEOUT = 30.0
"""Seconds until a file that a node has written must be seen here."""

_OFTEN = 1000
"""How often a job may reach its time limit and be queued again: more than any run needs."""

_OF_THE_SITE = ("SBATCH_EXPORT", "SBATCH_ARRAY_INX", "SBATCH_SIGNAL")
"""Variables that would be flags of sbatch with which a run cannot work."""


class SlurmLauncher:
    """Submits a job with one task a node, which starts the node's ranks."""

    def __init__(self, options: SlurmOptions) -> None:
        self._options = options

    def launch(self, config: Placement, work: Callable[..., TrainResult]) -> TrainResult:
        """Submit the job, show its output until it ends, and return what rank 0 returned.

        With several seeds it submits a job for each, and returns what the first one returned.
        """
        seeds: list[int | None] = [*self._options.seeds] or [None]
        jobs = [self._submit(config, work, seed) for seed in seeds]
        if inside := os.environ.get("SLURM_JOB_ID"):
            print(
                f"This does not use the nodes of job {inside}, in which it was submitted: `srun "
                "rltrain ...` does. If it waits for those, leave that job.",
                flush=True,
            )
        followed = [Job(job.job_id, job.task(0).paths.stdout) for job in jobs]
        failed: RankFailed | None = None
        for job in followed:
            try:
                follow(job, cancel=self._options.cancel)
            except RankFailed as error:
                failed = failed or error
            except KeyboardInterrupt:
                for other in followed if self._options.cancel else []:
                    other.cancel()
                raise
        if failed is not None:
            raise failed
        return _result(jobs[0])

    def _submit(self, config: Placement, work: Callable[..., TrainResult], seed: int | None) -> Any:
        """Submit a job, and return it as submitit knows it."""
        folder = Path(self._options.folder or Path(config.log_root, "slurm")).expanduser()
        try:
            executor = submitit.SlurmExecutor(folder.resolve(), max_num_timeout=_OFTEN)
        except RuntimeError as error:
            raise UsageError(f"--launcher slurm: {error}") from error
        parameters = job_parameters(config, self._options)
        if seed is not None:
            parameters["job_name"] += f"-seed-{seed}"
        executor.update_parameters(**parameters)
        node = NodeOfJob(
            work,
            getattr(config, "run_name", None),
            log_root=str(Path(config.log_root).resolve()),
            grace=self._options.seconds_of_grace,
            seed=seed,
        )
        saved = {name: os.environ.pop(name) for name in _OF_THE_SITE if name in os.environ}
        try:
            job = executor.submit(node)
        except (FailedJobError, FailedSubmissionError) as error:
            lines = [line.strip() for line in str(error).splitlines() if "sbatch: error:" in line]
            said = " ".join(line.removeprefix("sbatch: error: ") for line in lines) or str(error)
            raise UsageError(f"--launcher slurm: the job was refused: {said}") from error
        except OSError as error:
            raise UsageError(
                f"{folder}: cannot be written ({error.strerror}). Choose a folder on a disk that "
                "all nodes have: slurm.folder=DIR."
            ) from error
        finally:
            os.environ.update(saved)
        # They hold the options and the setup, in which may be secrets.
        for path in (job.paths.submitted_pickle, job.paths.submission_file):
            path.chmod(0o600)
        of_seed = "" if seed is None else f", seed {seed}"
        print(f"job {job.job_id} submitted{of_seed}: {job.paths.submission_file}", flush=True)
        print(f"its output: {job.task(0).paths.stdout}", flush=True)
        return job


def job_parameters(config: Placement, options: SlurmOptions) -> dict[str, Any]:
    """Return the job's parameters, by submitit's names."""
    ranks = int(config.nproc_per_node or 1)
    task = str(getattr(config, "task", "ranks")).rpartition("/")[2]
    parameters: dict[str, Any] = {
        "job_name": f"rltrain-{getattr(config, 'run_name', None) or task}",
        "nodes": config.nnodes,
        "ntasks_per_node": 1,
        "cpus_per_task": ranks * options.cpus_per_rank,
        "gpus_per_node": ranks if config.device_kind != "cpu" else None,
        "time": minutes(options.time),
        "signal_delay_s": options.seconds_of_grace,
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "mem": options.mem,
        "setup": [*options.setup, "export PYTHONSAFEPATH=rltrain"],  # Ranks drop it.
        "wckey": None,
        "stderr_to_stdout": True,
        "additional_parameters": {"requeue": True, **sbatch_flags(list(options.sbatch))},
    }
    return {name: value for name, value in parameters.items() if value is not None}


def _result(job: Any) -> TrainResult:
    """Return what node 0 returned."""
    path = job.task(0).paths.result_pickle
    deadline = time.monotonic() + _DISK_TIMEOUT
    while not path.exists():
        if time.monotonic() > deadline:
            raise RankFailed(
                f"Job {job.job_id} has ended and left no result, {path}. The disk must be one that "
                "all nodes have: choose it with slurm.folder=DIR."
            )
        time.sleep(0.5)
    result: TrainResult = job.task(0).result()
    return result
