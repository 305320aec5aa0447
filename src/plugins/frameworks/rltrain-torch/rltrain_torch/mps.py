"""NVIDIA's Multi-Process Service (MPS) for a run: with it, ranks use one GPU at the same time.

Without it, processes take turns on a GPU.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rltrain.config import Placement

PROGRAM = "nvidia-cuda-mps-control"
FOLDER = "CUDA_MPS_PIPE_DIRECTORY"
USUAL = "/tmp/nvidia-mps"
"""Where CUDA looks for a daemon without the variable."""
SOCKET = "control"
"""The daemon makes it in its folder when it is ready."""

STARTS = 10.0
"""Seconds that the daemon has to start."""
ENDS = 15.0
"""Seconds that it has to end, with its servers."""


def about() -> str:
    """Say in a few words whether ranks that share a GPU use it at the same time here."""
    if FOLDER in os.environ:
        return f"as {FOLDER}={os.environ[FOLDER]} says"
    if _is_there():
        return f"runs, at {USUAL}"
    return shutil.which(PROGRAM) or f"no {PROGRAM}: ranks that share a GPU take turns"


# The daemon ends with the launcher however that ends: then nobody holds the pipe any more.
_SERVE = """
"$1" -f </dev/null >/dev/null 2>&1 &
read -r _
echo 'quit -t 2' | timeout 5 "$1" >/dev/null 2>&1
kill -9 0
"""


@contextlib.contextmanager
def served(config: Placement, folder: Path) -> Iterator[None]:
    """Let ranks that share a GPU through NCCL use a daemon of their own, where there is one.

    It sees all GPUs of the machine, whatever the launcher sees. One that the user has started, or
    named by CUDA_MPS_PIPE_DIRECTORY, is used instead.

    Args:
        config: where the run runs.
        folder: a private one, in which the daemon keeps its files.
    """
    sharing = 0 < len(config.gpu_ids or ()) < int(config.nproc_per_node or 1)
    program = shutil.which(PROGRAM)
    if config.backend != "nccl" or not sharing or program is None or _is_there():
        yield
        return
    place = folder / "mps"
    place.mkdir()
    variables = {FOLDER: str(place), "CUDA_MPS_LOG_DIRECTORY": str(place)}
    shell = subprocess.Popen(
        ["sh", "-c", _SERVE, "sh", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**_seeing_all(), **variables},
        start_new_session=True,
    )
    try:
        if _is_ready(place, shell):
            os.environ.update(variables)
        else:
            print(
                f"rltrain: {program} did not start within {STARTS:g} s: ranks take turns on the "
                "GPU that they share.",
                file=sys.stderr,
            )
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        _end(shell)


def _is_there() -> bool:
    """Return whether the user has named a daemon, or runs one."""
    return FOLDER in os.environ or Path(USUAL, SOCKET).exists()


def _seeing_all() -> dict[str, str]:
    """Return the environment, with all GPUs: a daemon would number those that it sees anew."""
    return {name: text for name, text in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}


def _is_ready(place: Path, shell: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + STARTS
    while time.monotonic() < end and shell.poll() is None:
        if (place / SOCKET).exists():
            return True
        time.sleep(0.02)
    return False


def _end(shell: subprocess.Popen[bytes]) -> None:
    """End the daemon and whatever it has started."""
    if shell.stdin is not None:
        shell.stdin.close()
    try:
        shell.wait(ENDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
