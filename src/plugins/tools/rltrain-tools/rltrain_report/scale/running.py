"""Running the jobs of an experiment, one after the other, as users would by hand."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rltrain.builtin.console import duration
from rltrain.errors import UsageError
from rltrain.runs import all_runs, shortest
from rltrain_report.scale.experiment import Experiment, Job

_GRACE = 60.0
"""Seconds that a run has to end after a signal: it finishes its iteration and saves a checkpoint.
"""


def run_jobs(experiment: Experiment) -> tuple[dict[str, Path], list[str]]:
    """Run the jobs that are not done yet, and save after each which ones are.

    Returns:
        The run folders, and the names of the jobs that failed.
    """
    done, failed = experiment.finished(), []
    outputs = experiment.folder / "output"
    try:
        outputs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--output {experiment.folder}: cannot be written ({error.strerror})."
        ) from error
    if done:
        print(f"{len(done)} of {len(experiment.jobs)} runs were done before")
    for number, job in enumerate(experiment.jobs, start=1):
        if job.name in done:
            continue
        output = outputs / f"{job.name}.txt"
        ranks = f"{job.ranks} rank{'s' if job.ranks > 1 else ''}"
        print(f"[{number}/{len(experiment.jobs)}] {ranks}, seed {job.seed}", end="  ", flush=True)
        began = time.monotonic()
        status = _run(experiment.command(job), output)
        run = _newest(experiment, job)
        if status or run is None:
            failed.append(job.name)
            print(f"failed with exit status {status}; {shortest(output)} ends with:")
            print("\n".join(f"    {line}" for line in _last_lines(output)), flush=True)
            continue
        print(duration(time.monotonic() - began), flush=True)
        done[job.name] = run
        experiment.save(done)
    return done, failed


def _run(words: Sequence[str], output: Path) -> int:
    """Run `rltrain` and return its exit status. It ends when this process does."""
    command = [sys.executable, "-P", "-m", "rltrain", *words]
    with output.open("w") as file:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            return child.wait()
        except BaseException:
            # In a terminal, Ctrl-C has reached the run, too.
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(_GRACE)
            except BaseException:
                child.kill()
                child.wait()
            raise


def _newest(experiment: Experiment, job: Job) -> Path | None:
    """Return the run folder of the job's last attempt."""
    newest_first = all_runs(str(experiment.runs))
    return next((run for run in newest_first if _is_of(run.name, job.name)), None)


def _is_of(folder: str, name: str) -> bool:
    """Return whether a run folder is of this name: "seed-1" is not "seed-12"."""
    rest = folder.rpartition(f"_{name}")[2]
    return not rest or (rest.startswith("_") and rest[1:].isdecimal())


def _last_lines(output: Path) -> list[str]:
    return [line for line in output.read_text(errors="replace").splitlines() if line][-5:]
