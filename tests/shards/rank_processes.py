"""Ranks as real processes, each of which runs a script."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from helpers import free_port


def run_processes(words: Sequence[Sequence[object]], timeout: float) -> None:
    """Start a process for each rank, with these words after python, and wait for all."""
    place = {"WORLD_SIZE": len(words), "LOCAL_WORLD_SIZE": len(words), "MASTER_PORT": free_port()}
    place |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1}
    place["PYTHONPATH"] = os.pathsep.join(sys.path)  # They find what the tests find.
    started = []
    for rank, own in enumerate(words):
        environ = {**place, "RANK": rank, "LOCAL_RANK": rank}
        started.append(
            subprocess.Popen(
                [sys.executable, *map(str, own)],
                env=os.environ | {name: str(value) for name, value in environ.items()},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        errors = [process.communicate(timeout=timeout)[1] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert not any(process.returncode for process in started), "\n".join(errors)
