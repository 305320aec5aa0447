"""The rendezvous of a run on one node: torch elastic needs a store, and nobody else may reach it.

torch's own rendezvous listen on all addresses, and c10d's keeps a pickled state in its store, which
a stranger could replace. Only torch's documented interfaces are used.
"""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)

from rltrain.nodes import hold_port

NAME = "rltrain-alone"
"""The rendezvous backend, as torch elastic knows it."""


def register() -> str:
    """Make the rendezvous known to torch elastic, and return its name."""
    rendezvous_handler_registry.register(NAME, _create)
    return NAME


def _create(parameters: RendezvousParameters) -> LoneRendezvous:
    return LoneRendezvous(parameters.run_id)


class LoneRendezvous(RendezvousHandler):
    """Meets nobody, in this process' memory, and has a free port for this node's ranks."""

    def __init__(self, run_id: str) -> None:
        """Reserve the port."""
        self._run_id, self._met = run_id, 0
        self._store = dist.HashStore()  # type: ignore[attr-defined]
        self._holder = hold_port()

    @property
    def use_agent_store(self) -> bool:
        """Ranks share no store with this process: MASTER_PORT is theirs, to listen on."""
        return False

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
        return RendezvousInfo(store, 0, 1, RendezvousStoreInfo(*self._holder.getsockname()))

    def num_nodes_waiting(self) -> int:
        """Return how many nodes wait to join."""
        return 0

    def shutdown(self) -> bool:
        """Give the port back, and return that this could be done."""
        self._holder.close()
        return True
