"""The private parts of jax that `rltrain_jax.compat` uses, and options it relies on."""

from __future__ import annotations

import inspect

import jax
from jax._src import distributed

from rltrain_jax.compat import PREEMPTION, RECOVERABILITY


def test_a_process_has_one_client_and_one_service():
    assert {"client", "service"} <= set(dir(distributed.global_state))


def test_the_options_that_the_backends_set_exist():
    for name in ("jax_num_cpu_devices", "jax_platforms"):
        assert hasattr(jax.config, name), name
    # Older versions choose it by default.
    assert jax.config.jax_cpu_collectives_implementation in ("gloo", None)
    # A version with neither is older than both.
    assert hasattr(jax.config, PREEMPTION) == hasattr(jax.config, RECOVERABILITY)
    arguments = inspect.signature(jax.distributed.initialize).parameters
    assert {"cluster_detection_method", "coordinator_bind_address"} <= set(arguments)
