"""Runs collectives on one rank and describes the results: in a process, or in a fake world."""

from __future__ import annotations

import json
import sys
import zlib

import jax
import jax.numpy as jnp
import numpy as np

from rltrain.config import Placement
from rltrain.types import World
from rltrain_jax.gradients import TreeSync

OPS = ("sum", "mean", "min", "max")
SHAPES = ((), (3,), (2, 3), (0, 2))
JAX = [("float32", shape) for shape in SHAPES]
JAX += [(dtype, (3,)) for dtype in ("bfloat16", "float16", "int32", "uint8")]
NUMPY = [(dtype, shape) for dtype in ("float32", "float64", "int64") for shape in SHAPES]


def numbers(shape, dtype, seed):
    values = np.random.default_rng(seed).standard_normal(shape) * 10
    return np.asarray(np.abs(values) if dtype.startswith("u") else values)


def described(x):
    """Kind, dtype, shape and bytes."""
    kind = "jax" if isinstance(x, jax.Array) else type(x).__module__
    array = np.asarray(x)
    return [kind, str(x.dtype), list(x.shape), zlib.crc32(array.tobytes()), repr(array.ravel()[:3])]


def collectives(group):
    """Call every collective with every kind of value."""
    results = {}
    for kind, make, cases in (("jax", jnp.asarray, JAX), ("numpy", np.asarray, NUMPY)):
        for dtype, shape in cases:
            x, name = make(numbers(shape, dtype, group.rank), dtype=dtype), f"{kind} {dtype}{shape}"
            for op in OPS:
                if op != "mean" or "float" in dtype:
                    results[f"{op} of {name}"] = described(group.all_reduce(x, op))
            for src in range(group.world_size):
                results[f"{name} from {src}"] = described(group.broadcast(x, src))
    odd = jnp.array([-0.0, jnp.nan, jnp.inf]) * (1 if group.rank else -1)
    results["odd"] = described(group.broadcast(odd, group.world_size - 1))
    results["flags"] = described(group.broadcast(jnp.array([True, False, group.rank == 0])))
    results["large"] = described(group.all_reduce(np.arange(5000.0) + group.rank))
    everyone = group.gather_objects(["x" * 10_000] * (group.rank + 1))
    results["large objects"] = [len(items) for items in everyone]
    results["large object"] = len(group.broadcast_object("x" * (10_000 + group.rank), 1))
    return results


def tree(value):
    return {"kernel": jnp.full((2, 3), value), "bias": jnp.full((4,), value, jnp.bfloat16)}


def compiled_again(group):
    """Return compile events of messages and gradients whose sizes and shapes occurred before."""
    sync, events = TreeSync(group, tree(1.0)), []
    sync(tree(group.rank + 1.0))
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **about: events.append(event)
    )
    for length in (5, 77, 500):
        group.all_reduce(np.arange(float(length)))
        group.broadcast(np.arange(float(length)))
        group.gather_objects(["x"] * length)
        group.broadcast_object(["x"] * length)
    sync(tree(group.rank + 9.0))
    return [event for event in events if "compile" in event and "cache" not in event]


def main(rank: int, size: int) -> None:
    from rltrain_jax.backends import JaxBackend

    world = World(rank, rank, 0, size, size)
    group = JaxBackend().rltrain_init_distributed(world, Placement(backend="jax"))
    results = {
        "place": [group.rank, group.world_size, group.device],
        "devices": [jax.process_count(), jax.device_count(), jax.local_device_count()],
        "collectives": collectives(group),
        "compiled again": compiled_again(group),
    }
    group.close()
    print(json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
