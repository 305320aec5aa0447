"""A rank's heap: large arrays come from memory that was freed before."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

ARRAYS, BYTES = 50, 8 << 20
PAGES = ARRAYS * BYTES // os.sysconf("SC_PAGE_SIZE")
CHILD = f"""
import resource, sys
from rltrain.ranks.machine import keep_freed_memory

if "keep" in sys.argv:
    keep_freed_memory()
for _ in range({ARRAYS}):
    b"x" * {BYTES}
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def new_pages(*arguments, **environ):
    """Return how many pages Linux gave to a process that makes and frees large arrays."""
    inherited = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    command = [sys.executable, "-c", CHILD, *arguments]
    done = subprocess.run(
        command, env=inherited | environ, capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_large_arrays_use_freed_memory_again_unless_the_user_chose_otherwise():
    chosen = {"MALLOC_MMAP_THRESHOLD_": "131072"}
    assert new_pages("keep") < PAGES / 2 < new_pages("keep", **chosen)
