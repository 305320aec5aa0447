"""The rendezvous of one node."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
import torch.distributed as dist

from rltrain_torch.loopback import LoopbackRendezvous


def test_only_this_machine_reaches_its_store():
    met = LoopbackRendezvous("mine").next_rendezvous()
    port = met.bootstrap_store_info.master_port
    # Also an address of this machine, of which a server on all addresses would answer.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)
    ranks = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=5))
    ranks.set("x", "y")
    assert ranks.get("x") == b"y"


def test_ranks_that_start_again_find_fresh_keys():
    rendezvous = LoopbackRendezvous("mine")
    before, after = (rendezvous.next_rendezvous() for _ in range(2))
    before.store.set("x", "old")
    assert not after.store.check(["x"])
    assert (after.rank, after.world_size, rendezvous.num_nodes_waiting()) == (0, 1, 0)
