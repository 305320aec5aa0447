"""The process of one rank of the backend kit, which the kit starts as a launcher does.

It calls the backend through the hooks, as a run does, and writes the result of each check to a
file. The kit's tests evaluate these.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rltrain.clusters import StartedRank
from rltrain.config import RunConfig
from rltrain.launch import rank_device
from rltrain.options import RunOptions
from rltrain.plugins import Registry, discover
from rltrain.specs import BackendSpec
from rltrain.testing import RankSession, RunPlugins, make_config
from rltrain.types import Fingerprints, ReduceOp, World
from rltrain.work import find_cluster
from rltrain_devkit.kits import arrays as kit_arrays

CHECK_TIMEOUT = 60
"""Seconds for one check. A rank that waits longer for its peers ends, and prints on stderr where it
waited; its peers' collectives then fail, and they continue."""

OPS: tuple[ReduceOp, ...] = ("sum", "mean", "min", "max")

SEEDS = (11, 11, 12)

LATE = 0.2
"""Seconds by which a rank is late at a barrier."""


class WatchedSession(RankSession):
    """A session that keeps the watched fingerprints where a check can read them."""

    def __init__(self, config: RunConfig, world: World, plugins: RunPlugins) -> None:
        super().__init__(config, world, plugins)
        self.watched: dict[str, Fingerprints] = {}

    def watch(self, role: str, fingerprints: Fingerprints) -> None:
        """Keep the fingerprints."""
        self.watched[role] = fingerprints


@dataclass
class Rank:
    """The state that the checks of one rank share."""

    session: WatchedSession
    plugins: RunPlugins
    folder: Path
    """Where this world's ranks write files for each other and for the kit."""
    model: Any = None
    """The wrapped model."""

    @property
    def world(self) -> World:
        """This rank's place."""
        return self.session.world

    @property
    def framework(self) -> str:
        """The backend's framework."""
        return self.session.framework

    def array(self, framework: str, values: Any, dtype: str = "float32") -> Any:
        """Return an array on the rank's device."""
        return kit_arrays.array(framework, values, dtype, self.world.device)


def init_distributed(rank: Rank) -> Mapping[str, Any]:
    """Make the process group."""
    group = rank.session.group = rank.plugins.first(
        "rltrain_init_distributed",
        f"backend {rank.session.config.backend!r}",
        world=rank.world,
        config=rank.session.config,
    )
    return {name: getattr(group, name) for name in ("rank", "world_size", "device")}


def all_reduce(rank: Rank) -> Mapping[str, Any]:
    """Reduce (1, -1) of rank 0, (2, -2) of rank 1 and so on, with every operation."""
    number, results = rank.world.rank + 1.0, {}
    for framework in ("numpy", rank.framework):
        for op in OPS:
            reduced = rank.session.group.all_reduce(rank.array(framework, [number, -number]), op)
            results[f"{op} of {framework} arrays"] = kit_arrays.to_numpy(reduced).tolist()
    return results


def keep_form(rank: Rank) -> Mapping[str, Any]:
    """Send arrays of several dtypes and shapes; return the forms of inputs and outputs."""
    group, results = rank.session.group, {}
    collectives: dict[str, Callable[[Any], Any]] = {
        "all_reduce(sum)": group.all_reduce,
        "all_reduce(mean)": lambda x: group.all_reduce(x, "mean"),
        "broadcast": group.broadcast,
    }
    for framework in ("numpy", rank.framework):
        for dtype in ("float32", "float64", "int64"):
            for values in (2, [[1, 2, 3], [4, 5, 6]]):
                for name, collective in collectives.items():
                    if (dtype, name) == ("int64", "all_reduce(mean)"):
                        continue  # The mean of integers is not an integer.
                    given = rank.array(framework, values, dtype).T
                    form = kit_arrays.form(given)
                    results[f"{name} of {form}"] = [form, kit_arrays.form(collective(given))]
    return results


def broadcast(rank: Rank) -> Mapping[str, Any]:
    """Broadcast each rank's own number from every rank."""
    results = {}
    for framework in ("numpy", rank.framework):
        for src in range(rank.world.world_size):
            sent = rank.session.group.broadcast(rank.array(framework, [rank.world.rank]), src)
            results[f"{framework} array from rank {src}"] = kit_arrays.to_numpy(sent).tolist()
    return results


def broadcast_object(rank: Rank) -> list[Any]:
    """Broadcast objects of different sizes from every rank."""
    mine, ranks = ["object of rank", rank.world.rank] * (rank.world.rank + 1), rank.world.world_size
    return [rank.session.group.broadcast_object(mine, src) for src in range(ranks)]


def gather_objects(rank: Rank) -> list[Any]:
    """Gather objects of different sizes."""
    return rank.session.group.gather_objects([rank.world.rank] * (rank.world.rank + 1))


def gather_objects_on_one(rank: Rank) -> list[Any]:
    """Gather objects of several sizes on the last rank."""
    dst = rank.world.world_size - 1
    return rank.session.group.gather_objects([rank.world.rank] * (rank.world.rank + 1), dst=dst)


def refuse_objects(rank: Rank) -> list[str]:
    """Send what is not data; return the collectives that do not refuse it."""
    collectives: list[Callable[[Any], Any]] = [rank.session.group.gather_objects]
    if rank.world.world_size == 1:  # Otherwise, the other ranks would wait for the source.
        collectives.append(rank.session.group.broadcast_object)
    accepting = []
    for collective in collectives:
        try:
            collective(rank.world)
        except TypeError:
            continue
        accepting.append(collective.__name__)
    return accepting


def barrier(rank: Rank) -> list[list[int]]:
    """Let each rank be late once; return who had arrived when this rank left."""
    seen, ranks = [], range(rank.world.world_size)
    for late in ranks:
        if rank.world.rank == late:
            time.sleep(LATE)
        (rank.folder / f"arrived.{late}.{rank.world.rank}").touch()
        rank.session.group.barrier()
        seen.append(
            [other for other in ranks if (rank.folder / f"arrived.{late}.{other}").exists()]
        )
    return seen


def seed(rank: Rank) -> list[list[float]]:
    """Draw numbers after each of `SEEDS`."""
    drawn = []
    for number in SEEDS:
        rank.plugins.hook.rltrain_seed(stream="model", seed=number)
        drawn.append(kit_arrays.draw(rank.framework, rank.world.device))
    return drawn


def wrap_model(rank: Rank) -> Mapping[str, Any]:
    """Wrap a model whose values differ between ranks."""
    model = kit_arrays.small_model(rank.framework, 3.0 + rank.world.rank, rank.world.device)
    interface, before = kit_arrays.interface(model), _state(model)
    rank.model = rank.session.wrap_model(model, "policy")
    lacks = sorted(interface - kit_arrays.interface(rank.model))
    return {"before": before, "after": _state(rank.model), "lacks": lacks}


def fingerprints(rank: Rank) -> Mapping[str, Any]:
    """Change one parameter after another; return which changes the fingerprints show."""
    if "policy" not in rank.session.watched:
        return {"watched": sorted(rank.session.watched)}
    read, parameters = rank.session.watched["policy"], kit_arrays.parameters(rank.model)
    for parameter in parameters.values():
        kit_arrays.fill(parameter, 1.0)
    # As text, because that is what the divergence check compares.
    equal, changed = [repr(dict(read())), repr(dict(read()))], {}
    last = equal[-1]
    for name, parameter in parameters.items():
        kit_arrays.nudge(parameter)
        before, last = last, repr(dict(read()))
        changed[name] = last != before
    return {"watched": ["policy"], "of equal parameters": equal, "changed": changed}


def close(rank: Rank) -> None:
    """Leave the group, twice."""
    rank.session.group.close()
    rank.session.group.close()


CHECKS: tuple[Callable[[Rank], Any], ...] = (
    init_distributed,
    seed,
    all_reduce,
    keep_form,
    broadcast,
    broadcast_object,
    gather_objects,
    gather_objects_on_one,
    refuse_objects,
    barrier,
    wrap_model,
    fingerprints,
    close,
)
"""In the order in which every rank runs them."""


def main() -> None:
    """Run every check, even if one raises."""
    parser = argparse.ArgumentParser()
    parser.add_argument("backend")
    parser.add_argument("device", help="the kind of device; empty for the backend's own")
    parser.add_argument("devices", type=int, help="number of devices of this node; 0 for the CPU")
    parser.add_argument("folder", type=Path)
    rank = _rank(**vars(parser.parse_args()))
    for check in CHECKS:
        faulthandler.dump_traceback_later(CHECK_TIMEOUT, exit=True)
        try:
            outcome: dict[str, Any] = {"result": check(rank)}
        except Exception:
            outcome = {"error": traceback.format_exc()}
        folder = rank.folder / check.__name__
        folder.mkdir(exist_ok=True)
        (folder / f"outcome.{rank.world.rank}").write_text(json.dumps(outcome))
        if check is init_distributed and "error" in outcome:
            break  # Without a group, no other check means anything.
    faulthandler.cancel_dump_traceback_later()


def _rank(backend: str, device: str, devices: int, folder: Path) -> Rank:
    registry = discover()
    spec = registry.get(BackendSpec, backend)
    world = _world(registry, spec)
    kind = spec.kind_of_device(device)
    world = replace(world, device=rank_device(kind, world.local_rank, devices, shared=True))
    config = make_config(
        backend=backend,
        framework=spec.framework,
        device=kind,
        device_kind=kind,
        distributed=True,
        nproc_per_node=world.world_size,
        gpu_ids=tuple(range(devices)) if 0 < devices < world.world_size else None,
    )
    plugins = RunPlugins()
    plugins.choose(spec)
    return Rank(WatchedSession(config, world, plugins), plugins, folder)


def _world(registry: Registry, spec: BackendSpec) -> World:
    """Return this rank's place: the kit has set RANK, or the command that it was given says so."""
    found = find_cluster(RunOptions(framework=spec.framework), registry, os.environ)
    started = None if found is None else found[1]
    return started.world if isinstance(started, StartedRank) else World()


def _state(model: Any) -> dict[str, dict[str, Any]]:
    parts = {"parameters": kit_arrays.parameters(model), "buffers": kit_arrays.buffers(model)}
    return {
        part: {name: kit_arrays.to_numpy(x).tolist() for name, x in arrays.items()}
        for part, arrays in parts.items()
    }


if __name__ == "__main__":
    main()
