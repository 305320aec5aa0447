"""Backend and launcher pass their kits, and what libraries call of torch.distributed works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rltrain.errors import UsageError
from rltrain_devkit import BackendConformance, LauncherConformance

pytest.importorskip("mpi4py")

from rltrain_mpi.launcher import mpiexec
from rltrain_mpi.plugin import MpiOptions

pytestmark = pytest.mark.slow

try:
    MPIEXEC = mpiexec(MpiOptions())
except UsageError as error:
    pytest.skip(str(error), allow_module_level=True)


class TestMpi(BackendConformance):
    backend = "mpi"
    started_by = (*MPIEXEC, "-n", "{ranks}")


class TestMpiexec(LauncherConformance):
    launcher = "mpi"
    options = {"backend": "mpi"}


def test_what_libraries_call_of_torch_distributed():
    program = (sys.executable, str(Path(__file__).with_name("mpi_ranks.py")))
    started = (*MPIEXEC, "-n", "3", *program)
    done = subprocess.run(started, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"rank {rank} has all" in done.stdout for rank in range(3)), done.stdout
