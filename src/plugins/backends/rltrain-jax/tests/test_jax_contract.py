"""The private parts of jax that `rltrain_jax.coordination` uses, and options it relies on."""

from __future__ import annotations

import inspect
import socket

import jax
import pytest
from jax._src import distributed

from rltrain_jax.compat import PREEMPTION, RECOVERABILITY
from rltrain_jax.coordination import Board


@pytest.fixture
def board():
    """The table of a world of one, whose coordinator is in this process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    state = distributed.State()  # A separate one: this process has not joined a jax world.
    state.initialize(
        f"127.0.0.1:{port}", 1, 0, cluster_detection_method="deactivate", initialization_timeout=60
    )
    made = Board()
    assert made._client is None, "the client is the one of the process' own state"
    made._client = state.client
    yield made
    state.shutdown()


def test_each_rank_keeps_one_line(board):
    assert board.read() == {}
    board.write(1, "first")
    board.write(12, "other")
    board.write(1, "second")
    assert board.read() == {1: "second", 12: "other"}


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
