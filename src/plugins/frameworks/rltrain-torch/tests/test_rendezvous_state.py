"""What nodes that number themselves know of each other is data only."""

from __future__ import annotations

import os
import pickle

import pytest
from torch.distributed import HashStore
from torch.distributed.elastic.rendezvous import (
    RendezvousParameters,
    RendezvousStateError,
    dynamic_rendezvous,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend

from rltrain_torch.rendezvous_state import DataOnly


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/this-must-not-be",)


def made():
    inner = C10dRendezvousBackend(HashStore(), "run")
    return inner, DataOnly(inner)


def test_the_state_of_the_installed_torch_is_data_only():
    """A node joins by itself: torch writes every part of its state, and reads it again."""
    inner, backend = made()
    parameters = RendezvousParameters("c10d", "localhost:0", "run", 1, 1, last_call_timeout=1)
    handler = dynamic_rendezvous.create_handler(HashStore(), backend, parameters)
    assert handler.next_rendezvous().world_size == 1
    state, _ = backend.get_state()
    assert len(pickle.loads(state).participants) == 1
    handler.shutdown()
    assert backend.name == inner.name


def test_a_state_that_would_run_code_is_refused():
    inner, backend = made()
    assert backend.get_state() is None
    inner.set_state(pickle.dumps(Evil()))
    with pytest.raises(RendezvousStateError, match="would run code"):
        backend.get_state()
    with pytest.raises(RendezvousStateError, match="would run code"):
        backend.set_state(b"whatever")
