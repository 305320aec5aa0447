"""The pods of a manifest train together, as processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import free_port
from operators import Pod, pods_of

pytestmark = pytest.mark.slow

RUN = (
    "--library rsl_rl --distributed --nnodes 2 --nproc-per-node 1 --device cpu --num-envs 32 "
    "--max-iterations 2"
)


def start(pod: Pod, port: int) -> subprocess.Popen[str]:
    """Start a pod's command with its variables, in which this machine is the first pod's host."""
    here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    here |= {f"PET_{name}": value for name, value in here.items() if f"PET_{name}" in pod.environ}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        ["timeout", "--kill-after=10", "120", *pod.words],
        env={**os.environ, **pod.environ, **here, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("kind", ["pytorchjob", "jobset"])
def test_two_pods_train_together(manifest, tmp_path, kind):
    """A TrainJob's variables are those of test_machines.py."""
    volume = tmp_path / "runs"
    pods = pods_of(manifest(kind, RUN, "--volume", f"runs:{volume}"))
    assert len(pods) == 2
    port = free_port()
    processes = [start(pod, port) for pod in pods]
    printed = [process.communicate(timeout=150) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    assert "2 ranks on cpu, 2 nodes" in printed[0][0]
    (run,) = (path.parent for path in volume.rglob("manifest.json"))
    assert sorted(path.name for path in (run / "logs").iterdir()) == ["rank_0.log", "rank_1.log"]
    assert list(run.glob("checkpoints/*.pt"))
