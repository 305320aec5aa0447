"""Ranks that a real mpiexec starts: of MPICH, Intel MPI and Open MPI 5."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from helpers import free_port

pytestmark = pytest.mark.slow

PACKAGES = {"mpich": (), "impi-rt": (), "openmpi": ("--allow-run-as-root", "--oversubscribe")}
"""Packages of an ordinary index that have a mpiexec, and its flags for root on two cores."""

RUN = ("--distributed", "--num-envs", "32", "--max-iterations", "2")


@pytest.fixture(scope="module", params=PACKAGES)
def mpiexec(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(folder)]
    done = subprocess.run(
        [*install, request.param], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        pytest.skip(f"{request.param} could not be installed: {done.stderr[-200:]}")
    return (str(folder / "bin" / "mpiexec"), *PACKAGES[request.param], "-n", "2")


def test_torch_joins_the_ranks_of_mpiexec(command, mpiexec):
    words = ("--library", "rsl_rl", *RUN, "--observer", "probe", "--master-port", str(free_port()))
    run = command(*words, before=mpiexec)
    assert run.returncode == 0, run.stderr
    assert "2 ranks on cpu" in run.stdout
    assert len(list(command.log_root.rglob("manifest.json"))) == 1


def test_jax_joins_the_ranks_of_mpiexec(probe, mpiexec):
    words = ("--library", "averager", "--task", "Idle-v0", "--framework", "jax", "--device", "cpu")
    # Hydra sets nothing by which two jobs on a machine could choose different ports.
    run = probe(*words, *RUN, "--master-port", str(free_port()), before=mpiexec)
    assert run.returncode == 0, run.stderr
    for rank in (0, 1):
        world = json.loads((probe.folder / f"seen_{rank}.json").read_text())["world"]
        assert (world["rank"], world["world_size"], world["num_nodes"]) == (rank, 2, 1)
