"""Nothing of the current folder is imported in place of what is installed.

A stranger's run folder may have a file `torch.py`, and a user's own folder a `token.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers import run

pytestmark = pytest.mark.slow

SHADOWS = (
    *("torch", "numpy", "yaml", "pluggy", "rltrain_torch", "rltrain.ranks"),
    *("token", "queue", "copy", "json", "socket", "pickle", "signal", "random", "threading"),
)

SHADOW = """
with open({marker!r}, "a") as file:
    file.write(__name__ + "\\n")
raise ImportError("the file of the current folder")
"""

RLTRAIN = (str(Path(sys.executable).with_name("rltrain")),)
TRAIN = ("--library", "rsl_rl", "--num-envs", "4", "--max-iterations", "3", "--log-root", "../logs")
TWO = ("--nproc-per-node", "2")

COMMANDS = {
    "one process": (*RLTRAIN, *TRAIN),
    "rltrain": (*RLTRAIN, *TRAIN, "--distributed", *TWO),
    "processes": (*RLTRAIN, *TRAIN, "--distributed", "--launcher", "processes", *TWO),
    "mpi": (*RLTRAIN, *TRAIN, "--distributed", "--launcher", "mpi", "--backend", "mpi", *TWO),
    "ray": (*RLTRAIN, *TRAIN, "--launcher", "ray", *TWO),
    "own task": (*RLTRAIN, *TRAIN, "--task", "lab_tasks:Lab-v0", "--distributed", *TWO),
    "python -m": (sys.executable, "-m", "rltrain", *TRAIN, "--distributed", *TWO),
    "script": (sys.executable, "../own/script.py"),
    "check": (*RLTRAIN, *TRAIN, "--distributed", *TWO, "--dry-run"),
    "doctor": (*RLTRAIN, "doctor", *TWO),
}

OWN = {
    "hostile/lab_tasks.py": """
import os
from gymnasium.envs.classic_control.pendulum import PendulumEnv
import gymnasium

def make(**options):
    assert "PYTHONSAFEPATH" not in os.environ, "tasks start processes with what the user has set"
    return PendulumEnv(**options)

gymnasium.register("Lab-v0", make, max_episode_steps=50)
""",
    "own/beside.py": """
from rltrain import hookimpl
from rltrain.specs import ObserverSpec

@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="beside", factory="beside:Beside", summary="counts nothing")]

class Beside:
    @hookimpl
    def rltrain_shutdown(self):
        pass
""",
    "own/script.py": """
import beside
import rltrain

if __name__ == "__main__":
    rltrain.train(
        library="rsl_rl", num_envs=4, max_iterations=1, log_root="../logs",
        distributed=True, nproc_per_node=2, plugins=[beside], observers=["beside"],
    )
""",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_file_of_the_current_folder_takes_the_place_of_a_module(command, tmp_path, monkeypatch):
    if command in ("mpi", "ray"):
        pytest.importorskip({"mpi": "mpi4py", "ray": "ray"}[command])
    marker = tmp_path / "imported"
    for path, source in OWN.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(source)
    for name in SHADOWS:
        (tmp_path / f"hostile/{name}.py").write_text(SHADOW.format(marker=str(marker)))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    run(*COMMANDS[command], cwd=tmp_path / "hostile", timeout=300)
    assert not marker.exists(), marker.read_text()
