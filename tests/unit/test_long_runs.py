"""A rank in a long run holds no more memory, files and threads than at its beginning."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from made_up_sessions import session_of

from rltrain import train
from rltrain.hookspecs import hookimpl
from rltrain.records import Scalars
from rltrain.run.group import SingleProcess
from rltrain.storage.checkpoint import saved_checkpoints

FIRST, LAST = 300, 1500


def measure():
    gc.collect()
    memory, _ = tracemalloc.get_traced_memory()
    return memory, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


class Nowhere:
    @hookimpl
    def rltrain_write(self, record):
        pass


def hold_no_more(writer, tmp_path, files):
    """Check a long run with a writer, which leaves so many files besides checkpoints."""
    measured = []

    def body(session):
        session.env.reset()
        for iteration in range(1, LAST + 1):
            session.env.step(np.zeros((session.env.num_envs, 1)))
            session.record(Scalars(iteration, {"loss": 1.0 / iteration, "rate": 1e-3}))
            if session.should_save:
                # Names come again: Python keeps the last 512 patterns that were compiled.
                name = f"{iteration // 50 % 5}.pt"
                session.save_checkpoint(name, lambda path: path.touch(), iteration)
            if iteration in (FIRST, LAST):
                measured.append(measure())

    saves = {"log_root": str(tmp_path), "checkpoint_interval": 50, "keep": 3}
    session = session_of(SingleProcess("cpu"), body, {"writer": writer}, **saves)
    tracemalloc.start()
    try:
        result = session.run()
    finally:
        tracemalloc.stop()
    (memory, *rest), (memory_later, *rest_later) = measured
    assert rest_later == rest
    # Less than the smallest object in each iteration; Python's own caches grow a little.
    assert memory_later - memory < 28 * (LAST - FIRST)
    kept = saved_checkpoints(Path(result.run_dir), lambda text: None)
    assert len(kept) <= 4
    found = [path for path in Path(result.run_dir).rglob("*") if path.is_file()]
    assert len(found) == files + 2 * len(kept)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_a_long_run_holds_no_more_than_a_short_one(stub, tmp_path):
    hold_no_more(Nowhere(), tmp_path, files=5)


def test_a_ranks_log_is_tended_in_every_iteration(stub, monkeypatch):
    monkeypatch.setattr("rltrain.ranks.logs.LIMIT", -1)
    result = train(**{**stub.OPTIONS, "max_iterations": 2})
    assert (Path(result.run_dir) / "logs" / "rank_0.log.1").exists()
