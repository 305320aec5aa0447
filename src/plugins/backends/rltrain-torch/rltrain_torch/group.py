"""The process group over `torch.distributed`."""

from __future__ import annotations

import functools
import itertools
import os
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from rltrain.data import pack_object, unpack_object
from rltrain.errors import UsageError
from rltrain.launch import shared_folder
from rltrain.types import ReduceOp, World

__all__ = ["TorchProcessGroup"]

TIMEOUT = timedelta(minutes=30)
"""Maximum time of a collective. Ranks may spend minutes compiling or loading a simulator."""

_OPS = {
    "sum": dist.ReduceOp.SUM,
    "mean": dist.ReduceOp.SUM,  # gloo has no mean; the sum is divided afterwards.
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}


_groups = itertools.count()
"""Numbers the groups of this process."""


class TorchProcessGroup:
    """A `ProcessGroup` that is also torch's default group.

    Library code that calls `torch.distributed` itself uses the same ranks and backend.
    """

    def __init__(
        self,
        backend: str,
        world: World,
        create: Callable[[World], None] | None = None,
        join_timeout: float = TIMEOUT.total_seconds(),
    ) -> None:
        """Create the default group. Collective.

        Ray Train and others create it before they call the user's function: then it is used as it
        is, and stays.

        Args:
            backend: the name under which torch knows it.
            world: this rank's place.
            create: creates the default group. By default, ranks meet in the folder that they
                share, or else at MASTER_ADDR and MASTER_PORT.
            join_timeout: seconds in which they find each other's addresses there.

        Raises:
            UsageError: it is there already, and of another backend or size.
        """
        self._is_ours = not dist.is_initialized()
        if self._is_ours:
            (create or functools.partial(_create, backend, join_timeout))(world)
        else:
            _check_existing(backend, world)
        assert dist.group.WORLD is not None, "it was created, or found"
        destroy_without_gil(dist.group.WORLD)
        device = torch.device(world.device)
        # gloo communicates through host memory, so host arrays need not be copied to the GPU.
        self._staging = device if backend == "nccl" else torch.device("cpu")
        self.rank = world.rank
        self.world_size = world.world_size
        self.device = world.device

    def all_reduce(self, x: Any, op: ReduceOp = "sum") -> Any:
        """Combine a tensor (in place) or a numpy array over all ranks."""
        tensor = self._tensor(x)
        dist.all_reduce(tensor, op=_OPS[op])
        if op == "mean":
            tensor = tensor / self.world_size
        return self._like(tensor, x)

    def broadcast(self, x: Any, src: int = 0) -> Any:
        """Return rank `src`'s tensor or numpy array."""
        tensor = self._tensor(x)
        dist.broadcast(tensor, src=src)
        return self._like(tensor, x)

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        """Return rank `src`'s object."""
        # torch's own collectives of objects would unpickle anything that a peer sends.
        packed = pack_object(obj) if self.rank == src else b""
        size = int(self.broadcast(np.array(len(packed)), src))
        return unpack_object(self.broadcast(_padded(packed, size), src).tobytes())

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        """Return every rank's object, on one rank or on all."""
        packed = pack_object(obj)
        sizes = np.zeros(self.world_size, np.int64)
        sizes[self.rank] = len(packed)
        sizes = self.all_reduce(sizes)
        mine = self._tensor(_padded(packed, int(sizes.max())))
        rows = [torch.empty_like(mine) for _ in sizes] if dst in (None, self.rank) else []
        if dst is None:
            dist.all_gather(rows, mine)
        else:
            dist.gather(mine, rows or None, dst=dst)
        return [
            unpack_object(row[: int(size)].cpu().numpy().tobytes())
            for row, size in zip(rows, sizes, strict=False)
        ]

    def barrier(self) -> None:
        """Wait for all ranks."""
        # Read the result to wait for it: NCCL's collectives return once they are enqueued.
        self.all_reduce(torch.zeros(1, device=self._staging)).item()

    def close(self) -> None:
        """Destroy the default group, if it was created here and exists."""
        if self._is_ours and dist.is_initialized():
            dist.destroy_process_group()

    def _tensor(self, x: Any) -> torch.Tensor:
        if isinstance(x, torch.Tensor):
            return x.contiguous()
        return torch.from_numpy(x.copy()).to(self._staging)

    def _like(self, tensor: torch.Tensor, x: Any) -> Any:
        return tensor if isinstance(x, torch.Tensor) else tensor.cpu().numpy()


def _padded(packed: bytes, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(packed.ljust(size, b"\0"), np.uint8)


def _create(backend: str, join_timeout: float, world: World) -> None:
    """Create the default group. Collective."""
    store = _store(world, timedelta(seconds=join_timeout))
    dist.init_process_group(
        backend,
        store=store,
        rank=world.rank,
        world_size=world.world_size,
        timeout=TIMEOUT,
        # With it, NCCL connects immediately. gloo does not need a device.
        device_id=torch.device(world.device) if backend == "nccl" else None,
    )
    store.set_timeout(TIMEOUT)  # Before the next group, a rank may load a simulator for minutes.


def _store(world: World, timeout: timedelta) -> Store:
    """Return where the ranks find each other's addresses: out of others' reach on one node."""
    store: Store
    if world.world_size == 1:
        store = dist.HashStore()  # type: ignore[attr-defined]
        return store
    folder = shared_folder(world)
    if folder is not None:
        path = str(folder / "store")
        store = dist.FileStore(path, world.world_size)  # type: ignore[attr-defined]
        store.set_timeout(timeout)
    else:
        store, _, _ = next(rendezvous("env://", world.rank, world.world_size, timeout=timeout))
    # Both are kept when torch elastic restarts ranks (its own store in torch 2.13). Without a
    # prefix, a rank may read the address of a peer from the attempt before. In another store
    # there must be none: a node that has joined later counts fewer attempts.
    kept = folder is not None or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if kept else "0"
    # So it is in a process that trains one run after another: each rank trains as many.
    return PrefixStore(f"rltrain/attempt_{attempt}/group_{next(_groups)}", store)


def _check_existing(backend: str, world: World) -> None:
    place = (dist.get_rank(), dist.get_world_size())
    if (dist.get_backend(), *place) != (backend, world.rank, world.world_size):
        raise UsageError(
            f"This process has a group of torch.distributed already, of {dist.get_backend()}, with "
            f"rank {place[0]} of {place[1]}; the run needs {backend}, rank {world.rank} of "
            f"{world.world_size}. Choose the backend with --backend, or destroy that group first."
        )


def destroy_without_gil(group: dist.ProcessGroup) -> None:
    """Have a group destroyed while Python's GIL is free: torch 2.7 may hang otherwise.

    The destructor of a gloo group waits for gloo's threads. Python calls it while holding the GIL,
    and a thread that frees the last collective's tensor waits for the GIL: both wait forever (seen
    in every tenth group with 2.7.0, in none with 2.9.1). The backend's own Python object releases
    the GIL before it is destroyed. So that it goes last, it is kept until the group's Python
    object is gone. Then it does not matter who destroys the group.
    """
    if dist.get_backend(group) == "gloo":
        backend = group._get_backend(torch.device("cpu"))
        weakref.finalize(group, id, backend).atexit = False  # Does nothing but keep it.
