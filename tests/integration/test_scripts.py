"""Signals to a Python script that trains: they end its run gracefully, and then the script."""

from __future__ import annotations

import json
import os
import signal

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import rltrain

if __name__ == "__main__":
    ranks = {"distributed": True, "nproc_per_node": 2} if "2" in sys.argv else {}
    for seed in range(3):
        try:
            rltrain.train(
                library="rsl_rl", task="probe_plugin:Slow-v0", num_envs=2, max_iterations=5000,
                seed=seed, log_root=sys.argv[-1], **ranks,
            )
        except Exception:
            continue  # As a sweep that goes on after a failure.
"""


@pytest.mark.parametrize(
    ("ranks", "number", "code"),
    [
        (1, signal.SIGINT, -signal.SIGINT),  # Python ends so after KeyboardInterrupt.
        (1, signal.SIGTERM, 75),
        (1, signal.SIGUSR1, 75),
        (2, signal.SIGINT, -signal.SIGINT),
        (2, signal.SIGTERM, 75),
    ],
)
def test_a_signal_ends_a_loop_of_runs_after_its_checkpoint(command, ranks, number, code):
    (command.folder / "script.py").write_text(SCRIPT)
    process = command.start(str(ranks), launcher=("script",))
    command.checkpoint(process)
    os.killpg(process.pid, number)  # As a terminal does, and timeout(1).
    run = command.finish(process, timeout=60)
    assert run.returncode == code, run.stderr
    assert "\nstopped  iteration" in run.stdout
    (checkpoint,) = json.loads((run.folder / "checkpoints.json").read_text())[-1:]
    assert f"iteration {checkpoint['iteration']:4}/5000" in run.stdout
    assert command.all_gone(process)
