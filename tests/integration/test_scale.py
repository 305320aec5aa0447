"""`rltrain scale` with real ranks: interrupted, continued, and with runs that fail."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from helpers import living, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BREAKS = """
from rltrain import hookimpl
from rltrain.specs import ObserverSpec

@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="breaks", factory="breaks:Breaks", summary="fails on one rank")]

class Breaks:
    @hookimpl(wrapper=True)
    def rltrain_train(self, session):
        if session.world.world_size == 1:
            raise RuntimeError("one is not enough")
        return (yield)
"""


@pytest.fixture
def scale(tmp_path):
    """Start `rltrain scale` on 1 and 2 ranks in a session of its own."""
    started = []

    def start(*words):
        command = [sys.executable, "-m", "rltrain", "scale", "--ranks", "1", "2", "--output", "out"]
        run = ("--library", "rl_games", "--num-envs", "16", "--max-iterations", "3")
        process = subprocess.Popen(
            [*command, *run, "--device", "cpu", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        process.stdout.close()


def test_an_interrupted_experiment_continues_where_it_stopped(scale, tmp_path):
    first = scale()
    output = tmp_path / "out" / "output" / "ranks-2_seed-42.txt"
    wait_for(lambda: output.exists() and "starting 2 rank(s)" in output.read_text(), 120)
    first.send_signal(signal.SIGTERM)  # To this process alone; Ctrl-C reaches the run, too.
    assert first.wait(timeout=90) == 143
    wait_for(lambda: not living(first.pid), 10)

    second = scale()
    text, _ = second.communicate(timeout=150)
    assert second.returncode == 0, text
    assert "[1/2] ranks-1_seed-42  was done before" in text
    assert "| ranks |" in text
    results = json.loads((tmp_path / "out" / "scale.json").read_text())["results"]
    assert [size["ranks"] for size in results] == [1, 2]
    assert results[0]["efficiency"] == 1
    assert len(results[1]["seconds_by_rank"]) == 2
    assert (tmp_path / "out" / "scale.html").exists()


def test_a_run_that_fails_is_shown_and_the_others_continue(scale, tmp_path):
    (tmp_path / "breaks.py").write_text(BREAKS)
    info = tmp_path / "breaks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: breaks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rltrain]\nbreaks = breaks\n")
    process = scale("--observer", "breaks", "--max-iterations", "2")
    text, _ = process.communicate(timeout=250)
    assert process.returncode == 1, text
    assert text.count("failed with exit status 1") == 1
    assert "one is not enough" in text
    assert "Nothing can be compared: runs have failed." in text
