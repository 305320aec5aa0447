"""Runs collectives on one rank and describes the results: in a process, or in a fake world."""

from __future__ import annotations

import json
import sys
import zlib

import jax
import jax.numpy as jnp
import numpy as np

from rltrain.config import Placement
from rltrain.errors import DivergenceError
from rltrain.metrics.divergence import check_divergence
from rltrain.metrics.scalars import OWN, ScalarExchange
from rltrain.types import World
from rltrain_jax.gradients import TreeSync
from rltrain_jax.trees import broadcast_tree

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


def tree(value):
    return {
        "kernel": jnp.full((2, 3), value),
        "more": [jnp.full((), value), jnp.full((4,), value, jnp.bfloat16)],
        "count": jnp.full((), int(value), jnp.int32),
    }


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
    for size in (1, 10_000):
        everyone = group.gather_objects(["x" * size] * (group.rank + 1))
        results[f"objects of {size}"] = [len(items) for items in everyone]
        for src in range(group.world_size):
            obj = group.broadcast_object({"rank": group.rank, "x": "x" * size}, src)
            results[f"object of {size} from {src}"] = [obj["rank"], len(obj["x"])]
    group.barrier()
    return results


def learning(group):
    """Run a run's collectives over a group."""
    results = {}
    mine = tree(group.rank + 1.0)
    averaged = TreeSync(group, mine)(mine) if group.world_size > 1 else mine
    received = broadcast_tree(group, tree(group.rank + 5.0), jax.local_devices()[0])
    for name, made in (("averaged", averaged), ("received", received)):
        results[name] = [described(leaf) for leaf in jax.tree.leaves(made)]
    own = [2.0 + group.rank] * OWN
    merged = ScalarExchange(group).merge(3, {"loss": 0.1 + group.rank}, [1.0], own)
    results["merged"] = [merged.values, merged.sums, merged.own]
    check_divergence(group, {"policy": lambda: {"w": 1}}, 1)
    try:
        check_divergence(group, {"policy": lambda: {"w": group.rank}}, 1)
    except DivergenceError as error:
        results["divergence"] = str(error)
    return results


def compiled_again(group):
    """Return compile events of messages and gradients whose sizes and shapes occurred before."""
    mine = tree(group.rank + 1.0)
    sync, events = TreeSync(group, mine), []
    sync(mine)
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
        "learning": learning(group),
        "compiled again": compiled_again(group),
    }
    group.close()
    print(json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
