"""The rendezvous of a run on one node: nobody outside of this machine can reach its store.

torch's own rendezvous listen on all addresses, and c10d's keeps a pickled state in its store, which
a stranger could replace. Only torch's documented interfaces are used.
"""

from __future__ import annotations

import socket

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)

__all__ = ["NAME", "LoopbackRendezvous", "register"]

NAME = "rltrain-loopback"
"""The rendezvous backend, as torch elastic knows it."""

_HOST = "127.0.0.1"


def register() -> str:
    """Make the rendezvous known to torch elastic, and return its name."""
    rendezvous_handler_registry.register(NAME, _create)
    return NAME


def _create(parameters: RendezvousParameters) -> LoopbackRendezvous:
    return LoopbackRendezvous(parameters.run_id)


class LoopbackRendezvous(RendezvousHandler):
    """Meets nobody, and gives this node's ranks a store on the loopback interface."""

    def __init__(self, run_id: str) -> None:
        """Start the store, on a free port.

        Args:
            run_id: the run's name.
        """
        self._run_id, self._met = run_id, 0
        listener = socket.socket()
        listener.bind((_HOST, 0))
        listener.listen()
        self._port = listener.getsockname()[1]
        # The newer server, on libuv, does not take a socket in torch 2.7.
        self._store = dist.TCPStore(  # type: ignore[attr-defined]
            _HOST, self._port, is_master=True, master_listen_fd=listener.detach(), use_libuv=False
        )

    @property
    def use_agent_store(self) -> bool:
        """Ranks use this process' store: there is one server a run."""
        return True

    def get_backend(self) -> str:
        """Return its name."""
        return NAME

    def get_run_id(self) -> str:
        """Return the run's name."""
        return self._run_id

    def is_closed(self) -> bool:
        """Return whether no node may join any more."""
        return False

    def set_closed(self) -> None:
        """Do nothing: no node could join."""

    def next_rendezvous(self) -> RendezvousInfo:
        """Return the only node's place, with fresh keys for ranks that start again."""
        self._met += 1
        store = PrefixStore(f"{self._run_id}/{self._met}", self._store)
        return RendezvousInfo(store, 0, 1, RendezvousStoreInfo(_HOST, self._port))

    def num_nodes_waiting(self) -> int:
        """Return how many nodes wait to join."""
        return 0

    def shutdown(self) -> bool:
        """Return whether it could be shut down: the store goes with this object."""
        return True
