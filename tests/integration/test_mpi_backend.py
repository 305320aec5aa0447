"""Ranks that speak MPI: started by the launcher `mpi`, or by the user's own mpiexec.

That they end with the bytes of gloo's is in test_joining.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from rltrain.errors import UsageError

pytest.importorskip("mpi4py")

from rltrain_mpi.launcher import mpiexec
from rltrain_mpi.plugin import MpiOptions

pytestmark = pytest.mark.slow

try:
    MPIEXEC = (*mpiexec(MpiOptions()), "-n", "2")
except UsageError as error:
    pytest.skip(str(error), allow_module_level=True)

MPI = ("--distributed", "--backend", "mpi")
TWO_RANKS = ("--nproc-per-node", "2")
SHORT = ("--num-envs", "32", "--max-iterations", "3", "--observer", "probe", "--seed", "3")
SLOW = ("--task", "probe_plugin:Slow-v0", "--num-envs", "2", "--max-iterations", "5000")
LIMIT = 15
"""Seconds from the fault to the end of the command."""


def all_end(ranks: list[int]) -> bool:
    """mpiexec gives each rank a session of its own."""
    alive = [psutil.Process(pid) for pid in ranks if psutil.pid_exists(pid)]
    return not psutil.wait_procs(alive, timeout=LIMIT)[1]


def test_ranks_of_the_users_own_mpiexec_join(command):
    run = command("--library", "rsl_rl", *MPI, *SHORT, before=MPIEXEC)
    assert run.returncode == 0, run.stderr
    assert "2 ranks on cpu" in run.stdout
    assert len(list(command.log_root.rglob("manifest.json"))) == 1


def test_a_rank_that_fails_ends_the_ranks_of_the_users_own_mpiexec(command):
    process = command.start("--library", "rsl_rl", *MPI, *SLOW, before=MPIEXEC, PLANTED="1:400")
    ranks = command.ranks(process, 2)
    run = command.finish(process, timeout=60)
    assert run.returncode != 0
    assert "ValueError: planted in one rank's environment" in run.stdout + run.stderr
    assert all_end(ranks)


def test_another_librarys_ranks_are_refused(command):
    words = ("--library", "rsl_rl", *MPI, *TWO_RANKS, "--launcher", "processes")
    run = command(*words, *SHORT)
    assert run.returncode == 2
    assert "--backend mpi: MPI knows 1 rank(s), and the run has 2. mpi4py uses" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(("how", "ended_well"), [("leave", False), ("helper", True)])
@pytest.mark.parametrize("before", [MPIEXEC, ()])
def test_the_status_is_true(command, before, how, ended_well):
    words = (*SLOW[:-1], "3", "agent.num_steps_per_env=8", *([] if before else TWO_RANKS))
    planted = {"PLANTED": f"1:12:{how}"}
    run = command("--library", "rsl_rl", *MPI, *words, before=before, **planted)
    assert (run.returncode == 0) == ended_well, run.stderr
    assert ("\nfinished  iteration 3/3" in run.stdout) == ended_well


@pytest.mark.parametrize("victim", ["rank", "launcher"])
def test_sigkill_leaves_nothing_running(command, victim):
    process = command.start("--library", "rsl_rl", *MPI, *TWO_RANKS, *SLOW)
    ranks = command.ranks(process, 2)
    time.sleep(1)
    os.kill(ranks[1] if victim == "rank" else process.pid, signal.SIGKILL)
    run = command.finish(process, timeout=LIMIT)
    assert run.returncode == (137 if victim == "rank" else -9), run.stderr
    assert all_end(ranks)


def test_the_doctor_measures_its_ranks(command):
    doctor = [sys.executable, "-m", "rltrain", "doctor", "--backend", "mpi", *TWO_RANKS]
    run = subprocess.run(doctor, capture_output=True, text=True, timeout=120, check=False)
    assert "2 on mpi, started by mpi" in run.stdout, run.stdout
