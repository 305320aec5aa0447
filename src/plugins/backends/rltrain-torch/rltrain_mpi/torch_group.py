"""torch.distributed over an MPI communicator.

Code of libraries that calls `torch.distributed` runs unmodified. torch has an MPI backend of its
own, but only where it was built from source. This is the only file that uses private parts of
torch; `tests/test_mpi_contract.py` checks them against the installed version:
`_create_work_from_future` and the collectives' options, which a group in Python returns and
receives.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from mpi4py import MPI

from rltrain.types import World

BACKEND = "rltrain_mpi"
"""The name under which torch knows the backend; it keeps "mpi" for its own."""

_c10d: Any = torch._C._distributed_c10d  # type: ignore[attr-defined]
_ProcessGroup: Any = dist.ProcessGroup

_OPS: dict[Any, MPI.Op] = {
    dist.ReduceOp.SUM: MPI.SUM,
    dist.ReduceOp.AVG: MPI.SUM,
    dist.ReduceOp.MIN: MPI.MIN,
    dist.ReduceOp.MAX: MPI.MAX,
    dist.ReduceOp.PRODUCT: MPI.PROD,
}

_SENT_AS = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.bool: torch.uint8,
}
"""What is sent for dtypes that MPI cannot reduce."""

_TAGS = 1 << 15
"""Every MPI has at least as many tags."""

_run: dict[str, MPI.Intracomm] = {}
"""The run's communicator. torch makes groups by a function that it is given once per process."""


def create_default_group(communicator: MPI.Intracomm, world: World) -> None:
    """Make a communicator torch's default group. Collective."""
    # MPI may have numbered the ranks in another order.
    _run[BACKEND] = cast(MPI.Intracomm, communicator.Split(0, world.rank))
    if not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _make_group, extended_api=True, devices=["cpu"])
    dist.init_process_group(
        BACKEND, store=_c10d.HashStore(), rank=world.rank, world_size=world.world_size
    )


def _make_group(options: Any, _: Any) -> MpiGroup:
    """Make a group of some ranks. Called on these ranks only."""
    everyone = _run[BACKEND]
    # torch names no ranks for the default group.
    ranks = list(options.global_ranks_in_group) or list(range(everyone.Get_size()))
    members = everyone.Get_group().Incl(ranks)
    # The tag keeps groups apart that are made at the same time.
    tag = zlib.crc32(str(options.group_id).encode()) % _TAGS
    return MpiGroup(everyone.Create_group(members, tag))


class MpiGroup(_ProcessGroup):  # type: ignore[misc]
    """A c10d process group on the CPU. torch calls the methods by name.

    All collectives are complete when they return, asynchronous ones too.
    """

    def __init__(self, communicator: MPI.Intracomm) -> None:
        super().__init__(communicator.Get_rank(), communicator.Get_size())
        self._mpi = communicator

    def getBackendName(self) -> str:
        """Return the backend's name."""
        return BACKEND

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Reduce tensors in place."""
        op, is_mean = _op(opts)
        for tensor in tensors:
            with _array(tensor) as array:
                self._mpi.Allreduce(MPI.IN_PLACE, array, op)
            if is_mean:
                tensor.detach().div_(self.size())
        return _done(tensors)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Reduce several tensors in place."""
        return self.allreduce(tensors, opts)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Overwrite every rank's tensors with the source's."""
        for tensor in tensors:
            with _array(tensor) as array:
                self._mpi.Bcast(array, opts.rootRank)
        return _done(tensors)

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Gather all ranks' tensors on every rank."""
        for output, tensor in zip(outputs, inputs, strict=True):
            rows = torch.empty((self.size(), *tensor.shape), dtype=tensor.dtype)
            self.all_gather_single(rows, tensor)
            _fill(output, rows)
        return _done(outputs)

    def all_gather_single(self, output: torch.Tensor, x: torch.Tensor, opts: Any = None) -> Any:
        """Gather all ranks' tensors into one; newer torch gathers objects with this method."""
        with _array(x, writes=False) as mine, _array(output) as all_of_them:
            self._mpi.Allgather(mine, all_of_them)
        return _done([output])

    _allgather_base = all_gather_single
    """The name in older versions of torch."""

    def gather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Gather all ranks' tensors on one rank."""
        (tensor,), root = inputs, opts.rootRank
        here = self.rank() == root
        rows = torch.empty((self.size() if here else 0, *tensor.shape), dtype=tensor.dtype)
        with _array(tensor, writes=False) as mine, _array(rows) as all_of_them:
            self._mpi.Gather(mine, all_of_them if here else None, root)
        if here:
            _fill(outputs[0], rows)
        return _done(outputs)

    def barrier(self, opts: Any = None) -> Any:
        """Wait until every rank of the group has reached this point."""
        self._mpi.Barrier()
        return _done([])


def _absent(name: str) -> Callable[..., Any]:
    def method(*arguments: Any, **options: Any) -> Any:
        raise NotImplementedError(
            f"The backend mpi has no {name}. It has all_reduce, broadcast, all_gather and gather "
            "(of tensors and of objects) and barrier. Choose --backend gloo."
        )

    return method


for _name in ("alltoall", "recv", "reduce", "reduce_scatter", "scatter", "send"):
    setattr(MpiGroup, _name, _absent(_name))


def _op(options: Any) -> tuple[MPI.Op, bool]:
    """Return MPI's operation, and whether the result is then divided by the number of ranks."""
    wanted = getattr(options.reduceOp, "op", options.reduceOp)
    if wanted not in _OPS:
        raise NotImplementedError(
            f"The backend mpi has no reduction {wanted}. Use SUM, AVG, MIN, MAX or PRODUCT."
        )
    return _OPS[wanted], bool(wanted == dist.ReduceOp.AVG)


@contextlib.contextmanager
def _array(tensor: torch.Tensor, writes: bool = True) -> Iterator[np.ndarray[Any, Any]]:
    """Give MPI a CPU tensor's memory, hidden from autograd, or a copy where it could not read it.

    `writes` says whether MPI writes to it.
    """
    tensor = tensor.detach()
    sent = tensor.to(_SENT_AS.get(tensor.dtype, tensor.dtype)).contiguous()
    yield sent.numpy()
    if writes and sent.data_ptr() != tensor.data_ptr():
        tensor.copy_(sent)


def _fill(outputs: list[torch.Tensor], rows: torch.Tensor) -> None:
    for output, row in zip(outputs, rows, strict=True):
        output.detach().copy_(row)


def _done(result: Any) -> Any:
    """Return completed work."""
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(result)
    return _c10d._create_work_from_future(future)
