"""Two real jax ranks of skrl: they stay equal, resume from a checkpoint, and learn."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

TWO_RANKS = ["--library", "skrl", "--framework", "jax", "--distributed", "--nproc-per-node", "2"]

TIMEOUT = 400
"""Seconds: programs are compiled on each of the ranks, which share the processor's cores."""


def finished(command, *arguments):
    run = command.finish(command.start(*TWO_RANKS, *arguments), timeout=TIMEOUT)
    assert run.returncode == 0, run.stderr
    return run


@pytest.mark.slow(turns=1)
def test_two_ranks_train_stay_equal_and_resume(command, record_property):
    record_property("ran", "skrl by processes, on jax")
    short = ["agent.agent.rollouts=4", "agent.agent.mini_batches=2", "--num-envs", "16"]
    checked = [*short, "--check-interval", "1"]
    (saved,) = finished(command, *checked, "--max-iterations", "2").checkpoints()[-1:]
    assert saved.name == "agent_8.pickle"
    output = finished(command, *checked, "--max-iterations", "3", "--checkpoint", str(saved)).stdout
    assert "3/3" in output


@pytest.mark.slow
def test_two_ranks_learn_the_default_task(command):
    assert "solved" in finished(command, "--target-return", "475").stdout


@pytest.mark.slow
def test_nothing_is_compiled_after_the_second_iteration(command):
    short = ["agent.agent.rollouts=4", "agent.agent.mini_batches=2", "--num-envs", "16"]
    compiled = []
    for iterations in (2, 4):
        asked = [*TWO_RANKS, *short, "--max-iterations", str(iterations)]
        started = command.start(*asked, JAX_LOG_COMPILES="1")
        assert command.finish(started, timeout=TIMEOUT).returncode == 0
        logs = "".join(path.read_text() for path in command.log_root.rglob("rank_?.log"))
        compiled.append(logs.count("Compiling ") - sum(compiled))
    assert compiled[0]
    assert compiled[1] == compiled[0], "a longer run compiles what a short one does"
