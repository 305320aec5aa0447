"""A worker: it takes trials of a study, one in each of its slots, until none is left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rltrain.commands import make_plan
from rltrain.errors import UsageError
from rltrain.terminal import note, one_line
from rltrain_sweep.job import Job, Slot
from rltrain_sweep.population import Population
from rltrain_sweep.space import first_of, with_values
from rltrain_sweep.study import Study
from rltrain_sweep.trial import Search

_EVERY = 0.5
"""Seconds between two checks of the runs."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start_work(study: Study, parallel: int) -> int:
    """Work on a study in so many slots, in its working folder; return the exit status."""
    try:
        os.chdir(study.folder)
    except OSError as error:
        why = f"its working folder {study.folder} is not here ({error.strerror})"
        raise UsageError(f"{study.path}: {why}. Give it the same path on this machine.") from error
    slots = slots_of(study, parallel)
    more = f"rltrain sweep work {study.path}"
    print(f"study {study.path}; another worker: {more}", flush=True)
    print(f"many: sbatch --array=1-16 --wrap '{more}'", flush=True)
    populated = study.settings.population is not None
    return work_on(Population(study) if populated else Search(study), slots)


def work_on(work: Search | Population, slots: Sequence[Slot]) -> int:
    """Do jobs until none is left; return the exit status.

    A signal lets all runs save; they are taken up again by the next worker.
    """
    running: dict[int, Job] = {}
    print(work.head, flush=True)
    with _signals(running) as heard:
        while True:
            for index, slot in enumerate(slots):
                if index not in running and not heard and (job := work.take(slot)) is not None:
                    running[index] = job
            if not running and (heard or work.done()):
                break
            time.sleep(_EVERY)
            for index, job in list(running.items()):
                if (ended := job.poll()) is not None:
                    del running[index]
                    with work.study.locked():  # No worker takes it between result and release.
                        print(work.row(job, ended), flush=True)
                        os.close(job.lock)
                    if ended.state == "failed":
                        note(one_line(f"{job.found.name} failed: {ended.reason}"))
                elif heard and not job.asked:
                    job.stop()
    if heard:
        note(f"to continue: rltrain sweep work {work.study.path}")
        return 130 if heard[0] == signal.SIGINT else 75
    return 0


@contextlib.contextmanager
def _signals(running: dict[int, Job]) -> Iterator[list[int]]:
    """Yield the signals that were heard; the second one ends at once what still saves."""
    heard: list[int] = []

    def hear(number: int, _: Any) -> None:
        heard.append(number)
        for each in running.values() if len(heard) > 1 else ():
            each.stop()

    # Under nohup, SIGHUP stays ignored.
    taken = [each for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, hear) for each in taken}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def slots_of(study: Study, parallel: int) -> list[Slot]:
    """Return the slots of this machine: GPUs and cores are shared out, so that none has two.

    Raises:
        UsageError: there are fewer GPUs than slots.
    """
    plan = make_plan(with_values(study.options, first_of(study.space)))
    if parallel == 1 or plan.starts_nodes:
        return [Slot()] * parallel
    if plan.config.device_kind == "cpu":
        cores = sorted(os.sched_getaffinity(0))
        share = len(cores) // parallel
        if not share:
            note(f"{parallel} trials share {len(cores)} cores")
        return [Slot(cores=tuple(cores[i * share : (i + 1) * share])) for i in range(parallel)]
    gpus = plan.config.gpu_ids
    if gpus is None:
        every = {"gpu_ids": "all", "distributed": True, "nproc_per_node": "gpu", "device": None}
        gpus = tuple(range(int(make_plan({**plan.options, **every}).config.nproc_per_node or 1)))
    share = len(gpus) // parallel
    if not share:
        raise UsageError(f"--parallel {parallel}: there are {len(gpus)} GPUs; give at most that.")
    share = share if plan.config.distributed else 1
    return [Slot(gpus=gpus[i * share : (i + 1) * share]) for i in range(parallel)]
