"""The rendezvous of one node."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
import torch.distributed as dist

from rltrain_torch.alone import LoneRendezvous


def test_ranks_have_a_port_of_their_own_on_which_nothing_listens():
    met = LoneRendezvous("mine").next_rendezvous()
    place = met.bootstrap_store_info
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((place.master_addr, place.master_port), timeout=5)
    # What a backend or a library of a third party does with MASTER_ADDR and MASTER_PORT.
    port, timeout = place.master_port, timedelta(seconds=30)
    server = dist.TCPStore(place.master_addr, port, 2, True, timeout, wait_for_workers=False)
    client = dist.TCPStore(place.master_addr, port, 2, False, timeout)
    server.set("x", "y")
    assert client.get("x") == b"y"


def test_another_program_does_not_get_that_port():
    rendezvous = LoneRendezvous("mine")
    place = rendezvous.next_rendezvous().bootstrap_store_info
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((place.master_addr, place.master_port))
    assert rendezvous.shutdown()
    with socket.socket() as stranger:
        stranger.bind((place.master_addr, place.master_port))


def test_ranks_that_start_again_find_fresh_keys():
    rendezvous = LoneRendezvous("mine")
    before, after = (rendezvous.next_rendezvous() for _ in range(2))
    before.store.set("x", "old")
    assert not after.store.check(["x"])
    assert (after.rank, after.world_size, rendezvous.num_nodes_waiting()) == (0, 1, 0)
