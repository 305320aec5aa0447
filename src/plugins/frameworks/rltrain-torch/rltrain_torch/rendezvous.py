"""The rendezvous of nodes that number themselves: torch's c10d, which also notices lost nodes.

torch elastic drops a node that has fallen silent when nodes meet again, but nothing makes them
meet: if a link is cut, gloo and NCCL wait for many minutes. And its connection to the node with the
store waits as long. Only torch's documented interfaces are used.
"""

from __future__ import annotations

import contextlib
import copy
import os
import socket
import time
import uuid
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

from rltrain.errors import RankFailed, RltrainError, UsageError
from rltrain.launch import begin_meeting
from rltrain_nodes import end_when_silent, own_sockets, waiting_for
from rltrain_torch.node_pulse import NodePulse
from rltrain_torch.rendezvous_state import DataOnly

NAME = "rltrain-c10d"
"""The rendezvous backend, as torch elastic knows it."""

SETTINGS = {"keep_alive_interval": 3, "keep_alive_max_attempt": 4, "last_call_timeout": 5}
"""Seconds between two signs of life of a node, how many may be missing before torch drops it, and
seconds to wait for more nodes once there are enough: ranks go on within 30 s of a node's loss."""

_SILENCE, _LONG_SILENCE = 10.0, 17.0
"""Seconds after which a node without them is lost; the second where that ends the run."""

_REFUSAL, _TOLD = "refusal", "told"
"""Where the store has why a node does not start, and how many others have read it."""

_LONGEST = 4000
"""Characters of a refusal that others are told."""


def register() -> str:
    """Make the rendezvous known to torch elastic, and return its name."""
    rendezvous_handler_registry.register(NAME, create)
    return NAME


def create(parameters: RendezvousParameters) -> WatchedRendezvous:
    """Return a rendezvous; on the node where the nodes meet, it has the store."""
    # Ranks must not share torch elastic's own store: a node keeps its address from the first time
    # that the nodes met, although rank 0 may be elsewhere later (torch 2.13).
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    of_torch = copy.copy(parameters)
    of_torch.backend = "c10d"
    backend, torch_store = create_backend(of_torch)
    inner = create_handler(torch_store, DataOnly(backend), of_torch)
    host, _, port = parameters.endpoint.rpartition(":")
    timeout = timedelta(seconds=float(parameters.get("read_timeout", 60)))
    # A store serves one call at a time, and torch's own calls may wait in it.
    connect = dist.TCPStore  # type: ignore[attr-defined]
    store = connect(host.strip("[]"), int(port), is_master=False, timeout=timeout)
    _end_connections_when_silent(int(port))
    own = PrefixStore(f"rltrain/{parameters.run_id}", store)
    return WatchedRendezvous(inner, own, parameters, timeout.total_seconds())


def _end_connections_when_silent(port: int) -> None:
    """Let this process' connections to a port of others fail when nothing answers any more."""
    for connection in own_sockets():
        with contextlib.suppress(OSError):  # It may not be connected.
            peer = connection.getpeername()
            if isinstance(peer, tuple) and peer[1] == port:
                end_when_silent(connection)


class WatchedRendezvous(RendezvousHandler):
    """Lets ranks start again, on the nodes that are left, when a node falls silent.

    torch elastic asks every tenth of a second whether nodes are waiting to join. A lost node is
    reported like one that waits: ranks then start again, and it is not counted as a failure. A run
    that needs all of its nodes ends instead.
    """

    def __init__(
        self,
        inner: RendezvousHandler,
        store: Store,
        parameters: RendezvousParameters,
        timeout: float,
    ) -> None:
        """Start to give signs of life.

        Args:
            inner: torch's own.
            store: for signs of life; nobody else may use it.
            parameters: say where the nodes meet, and how many are needed.
            timeout: seconds to wait for other nodes.
        """
        self._inner, self._store, self._timeout = inner, store, timeout
        self._endpoint, self._others = parameters.endpoint, parameters.max_nodes - 1
        self._needs_all = needs_all = parameters.min_nodes == parameters.max_nodes
        self._name = f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex}"
        self._pulse = NodePulse(store, self._name, _LONG_SILENCE if needs_all else _SILENCE)

    def get_backend(self) -> str:
        """Return its name."""
        return NAME

    def get_run_id(self) -> str:
        """Return the run's name."""
        return self._inner.get_run_id()

    def is_closed(self) -> bool:
        """Return whether the run has ended."""
        return self._inner.is_closed()

    def set_closed(self) -> None:
        """End the run: no node may join it any more."""
        self._inner.set_closed()  # type: ignore[no-untyped-call]

    def next_rendezvous(self) -> RendezvousInfo:
        """Meet the other nodes, and watch them from then on."""
        begin_meeting()
        try:
            with waiting_for(f"other nodes at {self._endpoint}", self._timeout):
                met = self._inner.next_rendezvous()
        except RendezvousClosedError:
            raise self._closed() from None
        except RendezvousConnectionError as error:
            raise self._no_host() from error
        if met.rank == 0:
            nodes = f"{met.world_size} node{'s' if met.world_size > 1 else ''}"
            print(f"starting ranks on {nodes} of {self.get_run_id()}", flush=True)
        met.store.set(f"rltrain/{met.rank}", self._name)
        names = {met.store.get(f"rltrain/{rank}").decode() for rank in range(met.world_size)}
        self._pulse.watch(names - {self._name})
        return met

    def refuse(self, words: str, patience: float) -> None:
        """Tell the nodes that wait, or come, why this one does not start; they end.

        Args:
            words: why.
            patience: seconds for it: the others may start later.
        """
        text = f"Node {socket.gethostname()} does not start: {words}"
        self._store.set(_REFUSAL, text[:_LONGEST])
        self.set_closed()
        deadline = time.monotonic() + patience
        while self._store.add(_TOLD, 0) < self._others and time.monotonic() < deadline:
            time.sleep(0.1)

    def _closed(self) -> RltrainError:
        """Return why nobody can meet any more."""
        if self._store.check([_REFUSAL]):
            self._store.add(_TOLD, 1)
            return UsageError(self._store.get(_REFUSAL).decode(errors="replace"))
        return RankFailed(
            f"The run {self.get_run_id()} at {self._endpoint} has ended: one of its nodes finished "
            "it, or failed and has printed why."
        )

    def num_nodes_waiting(self) -> int:
        """Return how many nodes wait to join; a lost one counts, too."""
        try:
            waiting = self._inner.num_nodes_waiting()
        except RendezvousConnectionError as error:
            raise self._no_host() from error
        lost = self._pulse.lost()
        if lost and self._needs_all:
            raise RankFailed(f"Node {lost[0]} does not answer any more.")
        for name in lost:
            print(f"Node {name} does not answer any more: starting again without it.", flush=True)
        return waiting + len(lost)

    def shutdown(self) -> bool:
        """Leave the other nodes."""
        self._pulse.stop()
        return self._inner.shutdown()

    def _no_host(self) -> RankFailed:
        text = f"The node at {self._endpoint}, where the nodes meet, is gone or does not answer any"
        again = (
            "Start the run again with the same --rdzv-id: it goes on from its newest checkpoint."
        )
        must_stay = "" if self._needs_all else f" It must stay until the end. {again}"
        return RankFailed(f"{text} more.{must_stay}")
