"""What users install: the wheels, in a clean environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
UV = (sys.executable, "-m", "uv", "pip", "install", "--quiet")


def run(*command: str, cwd: Path, timeout: float = 600) -> str:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_wheels_install_together_and_train(tmp_path):
    wheels, clean = tmp_path / "wheels", tmp_path / "clean"
    sources = [str(ROOT), *(str(path) for path in sorted((ROOT / "src" / "plugins").iterdir()))]
    run(
        *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"),
        *("--wheel-dir", str(wheels), *sources),
        cwd=tmp_path,
    )
    built = sorted(wheels.glob("*.whl"))
    assert len(built) == len(sources)
    core = next(path for path in built if path.name.startswith("rltrain-"))

    run(sys.executable, "-m", "venv", "--without-pip", str(clean), cwd=tmp_path)
    pins = str(ROOT / "constraints" / "tested.txt")
    install = (*UV, "--python", str(clean), "-c", pins)
    index = os.environ.get("TORCH_INDEX")
    run(*install, "torch", *(["--index-url", index] if index else []), cwd=tmp_path)
    # Named by path, so that only the dependencies can come from the index.
    others = [str(path) for path in built if path != core]
    run(*install, f"rltrain[all,jax] @ {core.as_uri()}", *others, cwd=tmp_path)

    command = str(clean / "bin" / "rltrain")
    listed = json.loads(run(command, "plugins", "--json", cwd=tmp_path))
    # The libraries that they adapt are in none of rltrain's own extras.
    extra = {"envpool", "isaaclab", "mjlab", "mlflow", "mpi", "playground", "ray", "slurm", "wandb"}
    assert {row["name"] for row in listed if row["status"] != "ready"} == extra
    assert {row["name"] for row in listed if row["kind"] == "library"} == {
        "rl_games",
        "rsl_rl",
        "skrl",
    }
    job = (command, "--library", "rl_games", "--distributed", "--nproc-per-node", "2")
    shown = run(*job, "--max-iterations", "2", cwd=tmp_path)
    assert "iteration 2/2" in shown
    assert list((tmp_path / "logs").rglob("last_*.pth"))
