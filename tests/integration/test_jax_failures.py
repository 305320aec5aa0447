"""A failure under `--launcher processes` is loud and fast, for ranks of jax and of torch."""

from __future__ import annotations

import os
import signal
import time

import pytest
from helpers import wait_for

pytestmark = pytest.mark.slow

RUN = ["--library", "averager", "--task", "Idle-v0", "--launcher", "processes"]
TWO_RANKS = [*RUN, "--distributed", "--device", "cpu", "--nproc-per-node", "2"]
LIMIT = 15
"""Seconds from the fault to the end of the command."""


LONG = [*TWO_RANKS, "--max-iterations", "100000"]
JAX = [*LONG, "--framework", "jax"]


def seconds_since_planted(probe) -> float:
    return time.time() - float((probe.folder / "planted").read_text())


@pytest.mark.parametrize(
    ("framework", "rank", "how", "code"),
    [
        # Rank 0 hosts jax's coordinator; without it, its peers exit too.
        ("jax", 0, "raise", 1),
        ("jax", 1, "raise", 1),
        ("jax", 0, "exit", 3),
        ("jax", 1, "exit", 3),
        ("jax", 0, "kill", 137),
        ("jax", 1, "kill", 137),
        ("torch", 0, "exit", 3),
        ("torch", 1, "raise", 1),
    ],
)
def test_a_rank_that_fails_ends_the_run_with_its_code(probe, framework, rank, how, code):
    process = probe.start(*LONG, "--framework", framework, PLANTED=f"{rank}:20:{how}")
    run = probe.finish(process)
    assert seconds_since_planted(probe) < LIMIT
    assert run.returncode == code, run.stderr
    assert f"Rank {rank} " in run.stderr
    if how == "raise":
        assert run.stderr.rstrip().endswith("ValueError: planted in one rank")
        assert "planted" in (run.folder / "logs" / f"rank_{rank}.log").read_text()
    assert probe.all_gone(process)


def test_ctrl_c_reaches_all_and_ends_everything(probe):
    process = probe.start(*JAX)
    probe.ranks(process, 2)
    os.killpg(process.pid, signal.SIGINT)
    run = probe.finish(process, timeout=LIMIT)
    assert run.returncode == 130
    assert "\nstopped  iteration" in run.stdout
    assert run.stderr == ""
    assert probe.all_gone(process)


def test_ctrl_c_while_ranks_begin_shows_no_traceback(probe):
    process = probe.start(*JAX)
    wait_for(lambda: len(probe.members(process)) >= 4)  # And the tracker.
    os.killpg(process.pid, signal.SIGINT)
    run = probe.finish(process, timeout=LIMIT)
    assert run.returncode == 130
    assert "Traceback" not in run.stderr
    assert probe.all_gone(process)
