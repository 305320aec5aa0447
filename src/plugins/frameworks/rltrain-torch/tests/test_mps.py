"""A daemon of the run's own for ranks that share a GPU: started, bounded in time, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from rltrain.config import Placement
from rltrain_torch import mps

DAEMON = """#!/bin/sh
if [ "$1" != -f ]; then  # A command for the daemon.
  read -r command
  echo "$command" >> "$NOTES"
  [ -n "$DEAF" ] || kill "$(cat "$CUDA_MPS_PIPE_DIRECTORY/pid")"
  exit
fi
echo "gpus ${CUDA_VISIBLE_DEVICES-all}" >> "$NOTES"
sleep 60 &  # A server.
echo $! >> "$PIDS"
echo $$ | tee "$CUDA_MPS_PIPE_DIRECTORY/pid" >> "$PIDS"
[ -n "$SLOW" ] || touch "$CUDA_MPS_PIPE_DIRECTORY/control"
wait
"""
SHARING = Placement(backend="nccl", device_kind="cuda", gpu_ids=(0,), nproc_per_node=2)


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Plant a program in place of NVIDIA's; return the folder with what it noted."""
    program = tmp_path / "bin" / mps.PROGRAM
    program.parent.mkdir()
    program.write_text(DAEMON)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.delenv(mps.FOLDER, raising=False)
    monkeypatch.setattr(mps, "USUAL", str(tmp_path / "usual"))
    return tmp_path


def are_gone(folder, seconds=20.0):
    """Wait until no process that the program noted is left."""
    end = time.monotonic() + seconds
    left = [int(line) for line in (folder / "pids").read_text().split()]
    while left and time.monotonic() < end:
        left = [pid for pid in left if is_alive(pid)]
        time.sleep(0.02)
    return not left


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_run_has_a_daemon_and_ends_it(notes):
    with mps.served(SHARING, notes):
        assert os.environ[mps.FOLDER] == str(notes / "mps")
        assert (notes / "notes").read_text() == "gpus all\n"
    assert mps.FOLDER not in os.environ
    assert are_gone(notes)
    assert (notes / "notes").read_text() == "gpus all\nquit -t 2\n"


def test_the_doctor_says_whether_the_program_is_there(notes, monkeypatch):
    assert mps.about() == str(notes / "bin" / mps.PROGRAM)
    monkeypatch.setenv("PATH", "")
    assert mps.about() == f"no {mps.PROGRAM}: ranks that share a GPU take turns"


def test_a_daemon_that_does_not_answer_is_killed(notes, monkeypatch):
    monkeypatch.setenv("DEAF", "1")
    with mps.served(SHARING, notes):
        pass
    assert are_gone(notes)


def test_a_daemon_that_does_not_start_is_said_and_the_run_goes_on(notes, monkeypatch, capfd):
    monkeypatch.setenv("SLOW", "1")
    monkeypatch.setattr(mps, "STARTS", 0.5)
    with mps.served(SHARING, notes):
        assert mps.FOLDER not in os.environ
    assert "did not start within 0.5 s: ranks take turns" in capfd.readouterr().err
    assert are_gone(notes)


def test_the_daemon_ends_with_a_launcher_that_is_killed(notes):
    code = (
        "import pathlib, sys, time; from rltrain_torch import mps; from rltrain.config import "
        f"Placement; mps.USUAL = {mps.USUAL!r}\n"
        f"with mps.served({SHARING!r}, pathlib.Path({str(notes)!r})):\n"
        "    print('runs', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout.readline() == b"runs\n"
        launcher.send_signal(signal.SIGKILL)
    assert are_gone(notes)


@pytest.mark.parametrize(
    "changed",
    [{"backend": "gloo"}, {"gpu_ids": None}, {"gpu_ids": (0, 1)}, {"nproc_per_node": 1}],
    ids=str,
)
def test_ranks_that_do_not_share_a_gpu_by_nccl_have_none(notes, changed):
    fields = {"backend": "nccl", "device_kind": "cuda", "gpu_ids": (0,), "nproc_per_node": 2}
    with mps.served(Placement(**fields | changed), notes):
        assert not (notes / "notes").exists()


@pytest.mark.parametrize("named", [True, False])
def test_the_user_s_own_daemon_is_left_alone(notes, monkeypatch, named):
    if named:
        monkeypatch.setenv(mps.FOLDER, "/of/the/user")
    else:
        (notes / "usual").mkdir()
        (notes / "usual" / mps.SOCKET).touch()
    told = f"as {mps.FOLDER}=/of/the/user says" if named else f"runs, at {mps.USUAL}"
    assert mps.about() == told
    with mps.served(SHARING, notes):
        assert os.environ.get(mps.FOLDER) == ("/of/the/user" if named else None)
    assert not (notes / "notes").exists()
