"""Fixtures shared by the tests of the core and those in the plugins' folders."""

from __future__ import annotations

import gc
import os
import sys
import tempfile

import pytest
import torch

from rltrain import hookimpl
from rltrain.records import Scalars


def pytest_configure(config):
    """Share a jax compilation cache between all processes of a test run; most compile the same."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # Otherwise it is a worker.
        folder = tempfile.TemporaryDirectory(prefix="rltrain-compiled-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"
    gc.disable()


def pytest_collection_finish():
    """Never look for garbage in what the imports of all libraries made: a million objects."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _few_programs(request):
    """Release compiled programs: each jax program holds dozens of memory maps.

    Most Linux systems allow 65,530 of them per process, and LLVM ends the process silently when
    it gets no more: one file of tests that compile is enough for that.
    """
    yield
    if "jax" not in sys.modules or not request.node.get_closest_marker("long"):
        return
    with open("/proc/self/maps") as maps:
        crowded = sum(1 for _ in maps) > MANY_MAPS
    if crowded:
        sys.modules["jax"].clear_caches()
        gc.collect()


@pytest.fixture(autouse=True)
def _one_thread():
    """Limit torch to one thread: on tensors this small, more threads only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


MANY_MAPS = 20_000


class LocalGradients:
    """An observer that keeps the inputs of a rank's gradient sync, as `given`."""

    def __init__(self) -> None:
        self.given: list[torch.Tensor] = []

    @hookimpl(wrapper=True)
    def rltrain_gradient_sync(self):
        sync = yield

        def observed(gradients):
            self.given.append(torch.cat([gradient.reshape(-1) for gradient in gradients]))
            return sync(gradients)

        return observed


@pytest.fixture
def local_gradients():
    """The class of an observer that keeps the inputs of a rank's gradient sync, as `given`."""
    return LocalGradients


class KeptScalars:
    """An observer that keeps what rank 0 records, by iteration, as `values`."""

    def __init__(self) -> None:
        self.values: list[dict] = []

    @hookimpl
    def rltrain_write(self, record):
        if isinstance(record, Scalars):
            self.values.append(record.values)


@pytest.fixture
def scalars():
    """The class of an observer that keeps what rank 0 records, by iteration, as `values`."""
    return KeptScalars
