"""Killed in the middle of a rollout and resumed, again and again: the end is the same bytes.

Ranks that start again within one command are in test_planted_faults.py.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import pytest

from rltrain.options import DEFAULT_TASK
from rltrain.storage.checkpoint import INDEX
from rltrain.storage.run import Run, newest_first

KILLS = 5
ITERATIONS = 2 * KILLS + 2
TWO_RANKS = ("--library", "rsl_rl", "--distributed", "--nproc-per-node", "2", "--num-envs", "8")
RUN = (*TWO_RANKS, "agent.num_steps_per_env=8", "agent.save_interval=1", "--observer", "planted")


def end_of(log_root):
    """Return digests of the last checkpoint, and of every rank's state that belongs to it."""
    found = newest_first(str(log_root), "rsl_rl", DEFAULT_TASK, INDEX)
    checkpoint = Run(found[0], warn=pytest.fail).checkpoint()
    state = checkpoint.state
    parts = [checkpoint.path.read_bytes(), pickle.dumps(state["progress"])]
    return [hashlib.sha256(part).hexdigest() for part in parts] + [x for _, x in state["ranks"]]


@pytest.mark.slow
@pytest.mark.timeout(600)  # Seven starts of two ranks.
def test_real_ranks_killed_again_and_again_end_with_the_same_bytes(command, tmp_path):
    command.install("planted", Path(__file__).with_name("planted.py").read_text())
    words = (*RUN, "--max-iterations", str(ITERATIONS))
    command.log_root = tmp_path / "whole"
    assert command(*words, PLANTED="[]").returncode == 0
    command.log_root = tmp_path / "killed"
    # In the third iteration after a start: rank 0 may not have saved the second one yet.
    plan = [(1, f"{2 * (kill + 1)}.{kill}", "killed") for kill in range(KILLS)]
    for kill in range(KILLS):
        more = ["--checkpoint", "latest"] if kill else []
        run = command(*words, *more, PLANTED=json.dumps(plan))
        assert "Rank 1 was killed by SIGKILL" in run.stderr, run.stdout + run.stderr
    run = command(*words, "--checkpoint", "latest", PLANTED=json.dumps(plan))
    assert run.returncode == 0, run.stderr
    assert "Resuming" in run.stdout
    assert end_of(tmp_path / "killed") == end_of(tmp_path / "whole")
