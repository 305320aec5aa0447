"""What tests in several places use: those of the core, and those in the plugins' folders."""

from __future__ import annotations

import os
import tempfile

import pytest
import torch

from rltrain import hookimpl
from rltrain.records import Scalars


def pytest_configure(config):
    """Let all processes of one test run share what jax compiles; most of them compile the same."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # Else it is a worker.
        folder = tempfile.TemporaryDirectory(prefix="rltrain-compiled-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"


@pytest.fixture(autouse=True)
def _one_thread():
    """Hold torch to one thread: on tensors as small as these, more of them only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class LocalGradients:
    """An observer that keeps what a rank gives to its gradient sync, as `given`."""

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
    """The class of an observer that keeps what a rank gives to its gradient sync, as `given`."""
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
