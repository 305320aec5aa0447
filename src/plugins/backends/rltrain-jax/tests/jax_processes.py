"""Starts processes as the ranks of one world, for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from helpers import free_port

HERE = Path(__file__).parent


@contextmanager
def started(script, *arguments, size=2, host="127.0.0.1", environ=None):
    """Start `script rank size ...` for each rank; kill what is left."""
    variables = {
        **os.environ,
        "MASTER_ADDR": host,
        "MASTER_PORT": str(free_port(host)),
        "OMP_NUM_THREADS": "1",
        **(environ or {}),
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, str(HERE / script), str(rank), str(size), *map(str, arguments)],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def ended(script, *arguments, **options):
    """Run ranks to their end; return exit status, stdout and stderr of each."""
    with started(script, *arguments, **options) as ranks:
        outputs = [rank.communicate(timeout=120) for rank in ranks]
        return [(rank.returncode, *output) for rank, output in zip(ranks, outputs, strict=True)]
