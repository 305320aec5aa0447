"""What the backends do around a run, in this process."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.plugins.manager import RunPlugins
from rltrain.testing import make_config
from rltrain_jax import compat
from rltrain_jax.backends import JaxBackend, coordinator


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


def test_the_coordinator_is_at_the_masters_address():
    assert coordinator(ON_JAX, MASTER) == ("a", 29500)


def test_the_coordinator_avoids_the_port_on_which_torchrun_listens():
    variables = {**MASTER, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    assert coordinator(ON_JAX, variables) == ("a", 29501)


def test_a_coordinator_that_the_user_names_comes_first():
    named = make_config(framework="jax", master_addr="::1", master_port=2345)
    assert coordinator(named, MASTER) == coordinator(named, {}) == ("::1", 2345)


@pytest.mark.parametrize("variables", [{}, {"MASTER_ADDR": "a"}, {**MASTER, "MASTER_PORT": "x"}])
def test_without_an_address_there_is_an_error(variables):
    with pytest.raises(UsageError, match=r"MASTER_ADDR and MASTER_PORT are not set.*--master-addr"):
        coordinator(ON_JAX, variables)
