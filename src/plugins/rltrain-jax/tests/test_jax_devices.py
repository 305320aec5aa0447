"""Devices by name, and the cost of declaring the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from rltrain_jax.devices import _DRIVER_FILES, about, count_cuda, filled, local_device


def process(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "module", ["rltrain_jax", "rltrain_jax.plugin", "rltrain_jax.devices", "rltrain_jax.arrays"]
)
def test_discovery_imports_nothing_heavy(module):
    code = (
        f"import sys, {module}\n"
        "print([name for name in ('torch', 'jax', 'numpy', 'gymnasium') if name in sys.modules])"
    )
    assert process(code) == "[]"


def test_nothing_of_the_plugin_imports_torch():
    code = (
        "import sys\n"
        "import rltrain_jax.backends, rltrain_jax.gradients, rltrain_jax.trees\n"
        "print('torch' in sys.modules)"
    )
    assert process(code) == "False"


def test_the_cpu_is_jaxs_cpu():
    assert local_device("cpu") is jax.local_devices(backend="cpu")[0]


def test_a_missing_device_is_an_error(monkeypatch):
    with pytest.raises(RuntimeError):
        local_device("nonsense:3")
    monkeypatch.setattr(jax, "local_devices", lambda backend: [f"{backend}:0", f"{backend}:1"])
    assert local_device("cuda:1") == "cuda:1"
    with pytest.raises(RuntimeError, match="jax has no device cuda:2: there are cuda:0, cuda:1"):
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
    assert process(code) == "0 False"


def test_jax_reports_what_it_is_installed_for():
    described = about()
    assert described["version"] == jax.__version__
    cuda = any("cuda" in name for name in described["installed for"].split())
    assert (described["installed for"] == "the CPU only") is not cuda


def test_the_doctor_reduces_a_vector_on_the_device():
    x = filled(3, 2.0, "cpu")
    assert (x.tolist(), x.dtype, x.device.platform) == ([2.0, 2.0, 2.0], "float32", "cpu")
