"""The backend: every rank is connected with rank 0, which combines what they send.

Slower than gloo's ring for large models. It needs nothing but Python's sockets, and sums are added
in the order of ranks, so that they do not depend on how a library cuts them into pieces.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import reduce
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np
import torch

from rltrain import hookimpl
from rltrain.config import Placement
from rltrain.data import pack_object, unpack_object
from rltrain.errors import RltrainError
from rltrain.launch import shared_folder
from rltrain.types import ReduceOp, World
from rltrain_torch.backends import TorchBackend

__all__ = ["StarBackend", "StarGroup"]

Array = np.ndarray[Any, Any]
OPS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "mean": np.add,  # Divided afterwards.
    "min": np.minimum,
    "max": np.maximum,
}


class StarBackend(TorchBackend):
    """torch on the CPU: seeds and models are as in torch's own backends."""

    @hookimpl
    def rltrain_init_distributed(self, world: World, config: Placement) -> StarGroup:
        """Connect the ranks."""
        return StarGroup(world, config.join_timeout)


class StarGroup:
    """Implements `rltrain.types.ProcessGroup`. What is sent is bytes, never pickled objects."""

    def __init__(self, world: World, timeout: float) -> None:
        """Connect with rank 0: in the folder that a launcher made, else at MASTER_ADDR."""
        self.rank, self.world_size, self.device = world.rank, world.world_size, world.device
        self._peers: list[Connection[bytes, bytes]] = []
        if world.world_size == 1:
            return
        key = os.environ.get("STAR_SECRET", "rltrain-star").encode()
        folder = shared_folder(world)
        address: Any = folder and str(folder / "star")
        if folder is None:
            address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if world.rank == 0:
            with Listener(address, backlog=world.world_size, authkey=key) as listener:
                arrived = [listener.accept() for _ in range(world.world_size - 1)]
            numbered = {unpack_object(peer.recv_bytes()): peer for peer in arrived}
            self._peers = [numbered[rank] for rank in range(1, world.world_size)]
        else:
            self._peers = [_connect(address, key, timeout)]
            self._peers[0].send_bytes(pack_object(world.rank))

    def all_reduce(self, x: Any, op: ReduceOp = "sum") -> Any:
        """Combine an array over all ranks."""
        given = _to_numpy(x)

        def combine(rows: list[bytes]) -> bytes:
            arrays = [np.frombuffer(row, given.dtype).reshape(given.shape) for row in rows]
            total = reduce(OPS[op], arrays)
            divided = (total / len(arrays)).astype(given.dtype) if op == "mean" else total
            return bytes(divided.tobytes())

        combined = self._exchange(given.tobytes(), combine)
        return _like(np.frombuffer(combined, given.dtype).reshape(given.shape).copy(), x)

    def broadcast(self, x: Any, src: int = 0) -> Any:
        """Return rank `src`'s array."""
        given = _to_numpy(x)
        found = self._exchange(given.tobytes() if self.rank == src else b"", lambda rows: rows[src])
        return _like(np.frombuffer(found, given.dtype).reshape(given.shape).copy(), x)

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        """Return rank `src`'s object."""
        return self.gather_objects(obj if self.rank == src else None)[src]

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        """Return the objects of all ranks, by rank. With `dst`, only that rank gets them."""
        rows = self._exchange(pack_object(obj), lambda rows: pack_object([*map(bytearray, rows)]))
        if dst not in (None, self.rank):
            return []
        return [unpack_object(bytes(row)) for row in unpack_object(rows)]

    def barrier(self) -> None:
        """Wait until every rank has called this."""
        self._exchange(b"", lambda rows: b"")

    def close(self) -> None:
        """Leave the group. Safe to call twice, and after an error."""
        while self._peers:
            self._peers.pop().close()

    def _exchange(self, mine: bytes, combine: Callable[[list[bytes]], bytes]) -> bytes:
        """Send bytes to rank 0, and return what it makes of all ranks' bytes.

        Raises:
            RltrainError: another rank is gone.
        """
        try:
            if self.rank > 0:
                self._peers[0].send_bytes(mine)
                return self._peers[0].recv_bytes()
            combined = combine([mine, *(peer.recv_bytes() for peer in self._peers)])
            for peer in self._peers:
                peer.send_bytes(combined)
        except (EOFError, OSError) as error:
            raise RltrainError(f"Rank {self.rank} has lost another rank.") from error
        return combined


def _connect(address: Any, key: bytes, timeout: float) -> Connection[bytes, bytes]:
    """Connect with rank 0, which may come later.

    Raises:
        RltrainError: it does not come in time.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return Client(address, authkey=key)
        except (ConnectionError, FileNotFoundError) as error:
            if time.monotonic() > deadline:
                raise RltrainError(f"Rank 0 did not come within {timeout:g} s.") from error
            time.sleep(0.05)


def _to_numpy(x: Any) -> Array:
    array: Array = x.detach().numpy() if isinstance(x, torch.Tensor) else x
    return array


def _like(array: Array, x: Any) -> Any:
    return torch.from_numpy(array) if isinstance(x, torch.Tensor) else array
