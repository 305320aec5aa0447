"""Signals to commands that put a policy to use: their status says so, and nothing is left."""

from __future__ import annotations

import os
import signal

import pytest
from helpers import wait_for

pytestmark = pytest.mark.slow

TASK = ["--task", "probe_plugin:Slow-v0"]  # A run folder is not trusted to name code.
RUN = ["--library", "rsl_rl", *TASK, "--num-envs", "2"]
RUN += ["--max-iterations", "1", "agent.num_steps_per_env=8"]


@pytest.fixture
def trained(command):
    run = command(*RUN)
    assert run.returncode == 0, run.stderr
    (command.folder / "rank_0.pid").unlink()
    return run.folder


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_export_that_is_ended_says_so_and_the_next_one_cleans_up(command, trained, number, code):
    process = command.start("export", str(trained), *TASK)
    wait_for(lambda: list(trained.glob("exported/.*/")), process=process)
    process.send_signal(number)
    run = command.finish(process, timeout=60)
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr
    assert "cannot be exported" not in run.stderr
    assert not (trained / "exported" / "policy.onnx").exists()
    assert command("export", str(trained), *TASK).returncode == 0
    assert list((trained / "exported").glob(".partial*")) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_evaluation_that_is_ended_says_so_and_keeps_nothing(command, trained, number, code):
    process = command.start("evaluate", str(trained), *TASK, "--episodes", "100000")
    wait_for((command.folder / "rank_0.pid").exists, process=process)
    process.send_signal(number)
    run = command.finish(process, timeout=60)
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr
    assert not (trained / "evaluations.jsonl").exists()


def test_sigterm_ends_play_at_once_and_leaves_nothing(command, trained, tmp_path_factory):
    temporary = str(tmp_path_factory.mktemp("temporary"))
    process = command.start("play", str(trained), *TASK, "--viewer", "none", TMPDIR=temporary)
    for line in process.stdout:
        if line.startswith("episode"):
            break
    process.terminate()
    run = command.finish(process, timeout=60)
    assert (run.returncode, "Traceback" in run.stderr) == (143, False), run.stderr
    assert not [name for name in os.listdir(temporary) if name.startswith("rltrain")]
