"""Two real ranks train a robot with each library, and exit cleanly."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("envpool")


@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_two_ranks_train_a_robot(library, tmp_path):
    command = (
        f"--library {library} --task envpool/Go1JoystickFlatTerrain-v1 --num-envs 2 "
        "--distributed --nproc-per-node 2 --max-iterations 2"
    )
    run = subprocess.run(
        [sys.executable, "-m", "rltrain", *command.split(), "--log-root", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stderr
    assert "terminate called" not in run.stderr
    assert next(tmp_path.rglob("checkpoints"), None) is not None
