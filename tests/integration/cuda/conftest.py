"""Tests that need a GPU: marked `gpu`, skipped where there is none. See docs/gpu.md.

RLTRAIN_TEST_DEVICE=cpu runs the tests that make sense on the CPU, to try the tests themselves.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Makes the modules beside the tests, and `benchmarks`, importable.
sys.path[:0] = [str(HERE), str(HERE.parents[2])]

# jax would take most of the GPU's memory, which the runs of other tests and workers need too.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

from on_device import KIND  # noqa: E402


@functools.cache
def lacking() -> str | None:
    """Return why no GPU can be used, or None."""
    import torch

    if KIND == "cpu":
        return None
    if torch.version.cuda is None and torch.version.hip is None:
        return f"this torch, {torch.__version__}, is built without CUDA"
    return None if torch.cuda.is_available() else "no GPU is visible"


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("gpu")
            if reason := lacking():
                item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))


@pytest.fixture(scope="session")
def nccl_shares() -> None:
    """Skip where NCCL cannot have several ranks on one GPU."""
    from rltrain_torch.devices import why_not_shared

    if KIND != "cpu" and (reason := why_not_shared()):
        pytest.skip(reason)
