"""Devices by name, and what the backends do around a run."""

from __future__ import annotations

import ctypes
from ctypes.util import find_library
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from helpers import python
from messages import says

from rltrain import hookimpl
from rltrain.errors import RltrainError, UsageError
from rltrain.plugins.manager import RunPlugins
from rltrain.testing import make_config
from rltrain_jax import compat, devices
from rltrain_jax.backends import JaxBackend, coordinator
from rltrain_jax.devices import _DRIVER_FILES, about, count_cuda, local_device


def test_the_cpu_is_jaxs_cpu():
    assert local_device("cpu") is jax.local_devices(backend="cpu")[0]


def test_a_missing_device_is_an_error(monkeypatch):
    with pytest.raises(RltrainError, match=r"jax cannot open nonsense:3: .*nvidia-smi"):
        local_device("nonsense:3")
    monkeypatch.setattr(jax, "local_devices", lambda backend: [f"{backend}:0", f"{backend}:1"])
    assert local_device("cuda:1") == "cuda:1"
    with says(RltrainError):
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
    with says(RltrainError):
        with_driver(monkeypatch, tmp_path, Driver(0, error=803))


@pytest.mark.skipif(find_library("cuda") is not None, reason="there is a GPU's driver")
def test_a_container_with_the_drivers_files_but_not_its_library_is_named(monkeypatch, tmp_path):
    with says(RltrainError):
        with_driver(monkeypatch, tmp_path, None)


def test_jax_reports_what_it_is_installed_for():
    described = about()
    assert described["version"] == jax.__version__
    cuda = any("cuda" in name for name in described["installed for"].split())
    assert (described["installed for"] == "the CPU only") is not cuda


class Parts:
    """A suite and a library that record where jax puts arrays without a device."""

    @hookimpl
    def rltrain_make_env(self, session):
        return jax.config.jax_default_device, jnp.ones(3).devices()

    @hookimpl
    def rltrain_train(self, session):
        return jax.config.jax_default_device, jnp.ones(3).devices()


@pytest.mark.parametrize("hook", ["rltrain_make_env", "rltrain_train"])
def test_arrays_without_a_device_are_created_on_the_ranks_device(hook):
    plugins = RunPlugins()
    plugins.register(Parts(), "parts")
    plugins.register(JaxBackend(), "backend")
    session = SimpleNamespace(world=SimpleNamespace(device="cpu"))
    device = jax.local_devices(backend="cpu")[0]
    before = jax.config.jax_default_device
    assert plugins.first(hook, "parts", session=session) == (device, {device})
    assert jax.config.jax_default_device is before


def test_leaving_a_run_that_never_joined_does_nothing():
    JaxBackend().rltrain_shutdown(error=None)
    JaxBackend().rltrain_shutdown(error=ValueError("before there was a group"))


def test_gloo_gets_its_address(monkeypatch):
    """The contract: a factory under the name "cpu", called when the CPU is first used."""
    registered = {}
    monkeypatch.setattr(
        compat.xla_bridge,
        "register_backend_factory",
        lambda name, make, **options: registered.update({name: make}),
    )
    compat.set_gloo_address("127.0.0.1")
    assert list(registered) == ["cpu"]


ON_JAX = make_config(framework="jax", distributed=True)
MASTER = {"MASTER_ADDR": "a", "MASTER_PORT": "29500"}


NAMED = make_config(framework="jax", master_addr="::1", master_port=2345)


@pytest.mark.parametrize(
    ("config", "variables", "address"),
    [
        (ON_JAX, MASTER, ("a", 29500)),
        # On the next port, since torchrun listens on this one.
        (ON_JAX, {**MASTER, "TORCHELASTIC_USE_AGENT_STORE": "True"}, ("a", 29501)),
        (NAMED, MASTER, ("::1", 2345)),
        (NAMED, {}, ("::1", 2345)),
    ],
)
def test_the_coordinator_is_where_the_user_or_else_the_launcher_says(config, variables, address):
    assert coordinator(config, variables) == address


@pytest.mark.parametrize("variables", [{}, {"MASTER_ADDR": "a"}, {**MASTER, "MASTER_PORT": "x"}])
def test_without_an_address_there_is_an_error(variables):
    with says(UsageError):
        coordinator(ON_JAX, variables)
