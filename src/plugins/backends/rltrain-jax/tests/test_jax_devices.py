"""Devices by name, and the cost of declaring the plugin."""

from __future__ import annotations

import ctypes
from ctypes.util import find_library
from importlib import metadata
from pathlib import Path

import jax
import pytest
from helpers import python

from rltrain.errors import RltrainError
from rltrain_jax import devices
from rltrain_jax.devices import _DRIVER_FILES, about, count_cuda, local_device


@pytest.mark.slow
def test_nothing_of_the_plugin_imports_torch():
    code = (
        "import sys\n"
        "import rltrain_jax.backends, rltrain_jax.gradients, rltrain_jax.trees\n"
        "print('torch' in sys.modules)"
    )
    assert python(code).stdout.strip() == "False"


def test_the_cpu_is_jaxs_cpu():
    assert local_device("cpu") is jax.local_devices(backend="cpu")[0]


def test_a_missing_device_is_an_error(monkeypatch):
    with pytest.raises(RltrainError, match=r"jax cannot open nonsense:3: .*nvidia-smi"):
        local_device("nonsense:3")
    monkeypatch.setattr(jax, "local_devices", lambda backend: [f"{backend}:0", f"{backend}:1"])
    assert local_device("cuda:1") == "cuda:1"
    with pytest.raises(RltrainError, match="jax has no device cuda:2: there are cuda:0, cuda:1"):
        local_device("cuda:2")


def test_with_several_processes_the_only_device_is_each_ranks_own(monkeypatch):
    monkeypatch.setattr(jax, "local_devices", lambda backend: [f"{backend}:0"])
    assert local_device("cuda:5") == "cuda:0"


@pytest.mark.skipif(
    any(Path(name).exists() for name in _DRIVER_FILES), reason="there is a GPU's driver"
)
def test_without_a_driver_there_is_no_gpu_and_jax_is_not_imported():
    assert count_cuda() == 0
    code = (
        "import sys\n"
        "from rltrain_jax.devices import count_cuda\n"
        "print(count_cuda(), 'jax' in sys.modules)"
    )
    assert python(code).stdout.strip() == "0 False"


class Driver:
    """Stands in for libcuda, which machines without a GPU lack."""

    def __init__(self, gpus, error=0):
        self.gpus, self.error = gpus, error

    def cuInit(self, flags):
        return self.error

    def cuDeviceGetCount(self, number):
        number._obj.value = self.gpus
        return 0


def with_driver(monkeypatch, tmp_path, driver, plugins=("xla_cuda13",)):
    """Count the GPUs of a driver, with jax's plugins of these names."""
    plugin = [metadata.EntryPoint(name, "jax_plugins.x", "jax_plugins") for name in plugins]
    monkeypatch.setattr(devices, "_DRIVER_FILES", (str(tmp_path),))
    monkeypatch.setattr(metadata, "entry_points", lambda group: metadata.EntryPoints(plugin))
    if driver is not None:
        monkeypatch.setattr(ctypes, "CDLL", {"libcuda.so.1": driver}.__getitem__)
    return count_cuda()


def test_the_driver_counts_the_gpus_that_jax_can_use(monkeypatch, tmp_path):
    assert with_driver(monkeypatch, tmp_path, Driver(3)) == 3
    assert with_driver(monkeypatch, tmp_path, Driver(0, error=100)) == 0
    assert with_driver(monkeypatch, tmp_path, None, plugins=["tpu"]) == 0


def test_a_driver_that_does_not_work_is_named_instead_of_taking_the_cpu(monkeypatch, tmp_path):
    with pytest.raises(RltrainError, match=r"CUDA error 803 when jax asks for GPUs.*--device cpu"):
        with_driver(monkeypatch, tmp_path, Driver(0, error=803))


@pytest.mark.skipif(find_library("cuda") is not None, reason="there is a GPU's driver")
def test_a_container_with_the_drivers_files_but_not_its_library_is_named(monkeypatch, tmp_path):
    with pytest.raises(RltrainError, match=r"libcuda.so.1: .*--device cpu"):
        with_driver(monkeypatch, tmp_path, None)


def test_jax_reports_what_it_is_installed_for():
    described = about()
    assert described["version"] == jax.__version__
    cuda = any("cuda" in name for name in described["installed for"].split())
    assert (described["installed for"] == "the CPU only") is not cuda
