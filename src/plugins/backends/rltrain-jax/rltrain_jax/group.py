"""The process group over jax's own collectives."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from rltrain.data import pack_object, unpack_object
from rltrain.types import ReduceOp, World
from rltrain_jax.compat import (
    LEAVES_TOGETHER,
    exit_alone,
    is_lost_peer,
    shard_map,
    summable_width,
)
from rltrain_jax.devices import local_device

MESSAGE = 4096
"""Smallest size of a message in bytes: all shorter ones share one compiled program."""

_HEADER = 8
"""Bytes at the start of a message that hold its length."""

_AXIS = "ranks"

_ON_DEVICE: dict[ReduceOp, Callable[[Any], Any]] = {
    "sum": lambda x: lax.psum(x, _AXIS),
    "mean": lambda x: lax.pmean(x, _AXIS),
    "min": lambda x: lax.pmin(x, _AXIS),
    "max": lambda x: lax.pmax(x, _AXIS),
}

_ON_HOST: dict[ReduceOp, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "mean": operator.add,
    "min": np.minimum,
    "max": np.maximum,
}


class JaxProcessGroup:
    """A `ProcessGroup` of jax arrays on this rank's device, and of numpy arrays and objects.

    A program that is compiled once per operation, shape and dtype reduces jax arrays. numpy arrays
    and objects are exchanged as bytes: every rank gets those of all ranks, and reduces them on the
    host in the order of ranks, so that float64 stays float64 without `jax_enable_x64`. Messages
    have few sizes, so that few programs are compiled.
    """

    def __init__(self, world: World) -> None:
        """Use the one device of every process of `jax.distributed`. Collective.

        With several ranks, `jax.distributed` is initialized.
        """
        self.rank = world.rank
        self.world_size = world.world_size
        self.device = world.device
        self._device = local_device(world.device)
        mesh = Mesh(np.array(_devices(world)), (_AXIS,))
        self._by_rank = NamedSharding(mesh, P(_AXIS))
        on_ranks = functools.partial(shard_map, mesh=mesh, in_specs=P(_AXIS), out_specs=P())
        self._reduce = {op: jax.jit(on_ranks(combine)) for op, combine in _ON_DEVICE.items()}
        self._send = jax.jit(on_ranks(_chosen_array))
        self._gather = jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, P()))
        self.barrier()  # gloo connects in the first collective: now, while the ranks are in step.

    def all_reduce(self, x: Any, op: ReduceOp = "sum") -> Any:
        """Reduce a jax array on the device, or a numpy array on the host."""
        if isinstance(x, jax.Array):
            return self._on_device(f"all_reduce({op})", self._reduce[op], x)
        x = np.asarray(x)
        parts = [np.frombuffer(row, x.dtype, x.size) for row in self._gathered(x.tobytes())]
        total = functools.reduce(_ON_HOST[op], parts)
        combined = total / self.world_size if op == "mean" else total
        return np.array(combined).reshape(x.shape)

    def broadcast(self, x: Any, src: int = 0) -> Any:
        """Return rank `src`'s jax or numpy array, bit for bit."""
        if isinstance(x, jax.Array):
            chosen = np.array([src == self.rank])
            return self._on_device(f"broadcast(src={src})", self._send, x, chosen)
        x = np.asarray(x)
        data = self._broadcast_bytes(x.tobytes(), x.nbytes, src)
        return np.frombuffer(data, x.dtype, x.size).reshape(x.shape).copy()

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        """Return rank `src`'s object."""
        data = pack_object(obj) if src == self.rank else b""
        lengths, messages = self._exchange(data)
        if messages is None:
            return unpack_object(self._broadcast_bytes(data, lengths[src], src))
        return unpack_object(messages[src])

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        """Return every rank's object, on one rank or on all: jax can only send them to all."""
        data = pack_object(obj)
        lengths, messages = self._exchange(data)
        if messages is None:
            rows = self._gathered(data.ljust(max(lengths), b"\0"))
            messages = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        return [unpack_object(message) for message in messages] if dst in (None, self.rank) else []

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._exchange(b"")

    def close(self) -> None:
        """Leave `jax.distributed` together; rank 0 goes last.

        It hosts the coordinator; when that ends, so do the processes connected to it.
        """
        if self.world_size == 1 or not jax.distributed.is_initialized():
            return
        self.barrier()
        if self.rank > 0 or LEAVES_TOGETHER:
            jax.distributed.shutdown()
        if LEAVES_TOGETHER:
            return
        self.barrier()
        if self.rank == 0:
            jax.distributed.shutdown()

    def abandon(self) -> None:
        """Leave at once after an error."""
        if self.world_size == 1 or not jax.distributed.is_initialized():
            return
        if LEAVES_TOGETHER:
            exit_alone()
        elif self.rank > 0:
            jax.distributed.shutdown()

    def _on_device(
        self, name: str, program: Callable[..., Any], x: jax.Array, *more: Any
    ) -> jax.Array:
        """Run a program over all ranks' arrays; return its result, of this rank's shape."""
        if not x.size:
            return x
        placed = [jax.device_put(array, self._device) for array in (x, *more)]
        rows = [self._global(array if array.ndim else array[None]) for array in placed]
        result = self._run(name, program, *rows)
        return result if x.ndim else result[0]

    def _run(self, name: str, program: Callable[..., Any], *rows: jax.Array) -> jax.Array:
        """Run a collective program; the name is that of the call in an error."""
        try:
            result: jax.Array = program(*rows).addressable_data(0)
        except Exception as error:
            if not is_lost_peer(error):
                raise
            raise ConnectionError(f"Rank {self.rank} lost a peer in {name}: {error}") from error
        return result

    def _global(self, local: jax.Array) -> jax.Array:
        """Return the array whose part on this rank, along the first dimension, is `local`."""
        shape = (self.world_size * local.shape[0], *local.shape[1:])
        return jax.make_array_from_single_device_arrays(shape, self._by_rank, [local])

    def _exchange(self, data: bytes) -> tuple[list[int], list[bytes] | None]:
        """Return the length of every rank's bytes, and the bytes too if all are short."""
        rows = self._gathered((len(data).to_bytes(_HEADER, "big") + data)[:MESSAGE])
        lengths = [int.from_bytes(row[:_HEADER], "big") for row in rows]
        if max(lengths) > MESSAGE - _HEADER:
            return lengths, None
        ends = [_HEADER + length for length in lengths]
        return lengths, [row[_HEADER:end] for row, end in zip(rows, ends, strict=True)]

    def _gathered(self, data: bytes) -> list[bytes]:
        """Return every rank's bytes, padded with zeros to the same size on all ranks."""
        local = jax.device_put(_padded(data), self._device)
        rows = np.asarray(self._run("exchange", self._gather, self._global(local)))
        return [row.tobytes() for row in rows.reshape(self.world_size, -1)]

    def _broadcast_bytes(self, data: bytes, length: int, src: int) -> bytes:
        """Return rank `src`'s bytes, `length` of them."""
        message = jax.device_put(_padded(data if src == self.rank else bytes(length)), self._device)
        return np.asarray(self.broadcast(message, src)).tobytes()[:length]


def _devices(world: World) -> list[jax.Device]:
    """Return the ranks' devices, in the order of ranks."""
    if world.world_size == 1:
        return [local_device(world.device)]
    kind = world.device.partition(":")[0]
    devices = sorted(jax.devices(kind), key=lambda device: device.process_index)
    owners = [device.process_index for device in devices]
    if owners != list(range(world.world_size)):
        raise RuntimeError(
            f"Each of {world.world_size} ranks needs one {kind} device of jax's; jax has one for "
            f"each of the processes {owners}."
        )
    return devices


def _chosen_array(x: Any, chosen: Any) -> Any:
    """Return the chosen rank's array: a sum of its bits, as integers, and zeros is exact."""
    if x.dtype == jnp.bool_:
        return _chosen_array(x.astype(jnp.uint8), chosen).astype(jnp.bool_)
    bits = lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}")
    width = summable_width(x.dtype.itemsize)
    sent = lax.psum(jnp.where(chosen, bits, 0).astype(f"uint{8 * width}"), _AXIS)
    return lax.bitcast_convert_type(sent.astype(bits.dtype), x.dtype)


def _padded(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes in an array whose size is a power of two, at least `MESSAGE`."""
    size = max(MESSAGE, 1 << (len(data) - 1).bit_length()) if data else MESSAGE
    return np.frombuffer(data.ljust(size, b"\0"), np.uint8)
