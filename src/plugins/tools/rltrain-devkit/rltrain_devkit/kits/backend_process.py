"""The process of one rank of the backend kit, which the kit starts as a launcher does.

It calls the backend through the hooks, as a run does, and writes what came of each check to a file.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltrain.clusters import StartedRank
from rltrain.launch import rank_device
from rltrain.options import RunOptions
from rltrain.plugins import discover
from rltrain.specs import BackendSpec
from rltrain.testing import RankSession, RunPlugins, make_config
from rltrain.types import Fingerprints, ProcessGroup, ReduceOp, World
from rltrain.work import find_cluster
from rltrain_devkit.kits import arrays as kit_arrays

CHECK_TIMEOUT = 60
"""Seconds for one check. A rank that waits longer for its peers ends, and prints on stderr where it
waited; its peers' collectives then fail, and they continue."""

OPS: tuple[ReduceOp, ...] = ("sum", "mean", "min", "max")

LATE = 0.2
"""Seconds by which a rank is late at a barrier."""


class Rank:
    """What the checks of one rank share."""

    group: ProcessGroup
    model: Any
    """The wrapped model."""

    def __init__(self, backend: str, device: str, devices: str, folder: str) -> None:
        """Find this rank's place: the kit has set it, or the command that it was given says it.

        Args:
            backend: the backend's name.
            device: the kind of device; empty for the backend's own.
            devices: number of devices of this node; 0 for the CPU.
            folder: where this world's ranks write files for each other and for the kit.
        """
        registry = discover()
        spec, count = registry.get(BackendSpec, backend), int(devices)
        found = find_cluster(RunOptions(framework=spec.framework), registry, os.environ)
        started = None if found is None else found[1]
        world = started.world if isinstance(started, StartedRank) else World()
        kind = spec.kind_of_device(device)
        self.world = replace(world, device=rank_device(kind, world.local_rank, count, shared=True))
        self.number, self.size = self.world.rank, self.world.world_size
        self.framework, self.folder = spec.framework, Path(folder)
        config = make_config(
            backend=backend,
            framework=spec.framework,
            device=kind,
            device_kind=kind,
            distributed=True,
            nproc_per_node=world.world_size,
            gpu_ids=tuple(range(count)) if 0 < count < world.world_size else None,
        )
        self.plugins = RunPlugins()
        self.plugins.choose(spec)
        self.session = RankSession(config, self.world, self.plugins)
        self.watched: dict[str, Fingerprints] = {}
        self.session.watch = self.watched.__setitem__  # type: ignore[assignment,method-assign]

    def array(self, framework: str, values: Any, dtype: str = "float32") -> Any:
        """Return an array on the rank's device."""
        return kit_arrays.array(framework, values, dtype, self.world.device)


def _place(rank: Rank) -> None:
    rank.group = rank.session.group = rank.plugins.first(
        "rltrain_init_distributed",
        f"backend {rank.session.config.backend!r}",
        world=rank.world,
        config=rank.session.config,
    )
    names = ("rank", "world_size", "device")
    found, expected = ([getattr(x, name) for name in names] for x in (rank.group, rank.world))
    assert found == expected, f"{', '.join(names)} of the group are {found}, not {expected}"


def _all_reduce(rank: Rank) -> None:
    own, numbers = rank.number + 1.0, [1.0 + number for number in range(rank.size)]
    mean = sum(numbers) / rank.size
    expected = {
        "sum": [sum(numbers), -sum(numbers)],
        "mean": [mean, -mean],
        "min": [1.0, -numbers[-1]],
        "max": [numbers[-1], -1.0],
    }
    for framework in ("numpy", rank.framework):
        for op in OPS:
            reduced = rank.group.all_reduce(rank.array(framework, [own, -own]), op)
            found = kit_arrays.to_numpy(reduced).tolist()
            assert found == expected[op], (
                f"the {op} of {framework} arrays with {numbers} at index 0 and the negated numbers "
                f"at index 1 is {found}, not {expected[op]}"
            )


def _keep_form(rank: Rank) -> None:
    collectives: dict[str, Callable[[Any], Any]] = {
        "all_reduce(sum)": rank.group.all_reduce,
        "all_reduce(mean)": lambda x: rank.group.all_reduce(x, "mean"),
        "broadcast": rank.group.broadcast,
    }
    for framework in ("numpy", rank.framework):
        for dtype in ("float32", "float64", "int64"):
            for values in (2, [[1, 2, 3], [4, 5, 6]]):
                for name, collective in collectives.items():
                    if (dtype, name) == ("int64", "all_reduce(mean)"):
                        continue  # The mean of integers is not an integer.
                    given = rank.array(framework, values, dtype).T
                    form = kit_arrays.form(given)
                    got = kit_arrays.form(collective(given))
                    assert got == form, f"{name} of {form} returned {got}"


def _broadcast(rank: Rank) -> None:
    for framework in ("numpy", rank.framework):
        for src in range(rank.size):
            sent = rank.group.broadcast(rank.array(framework, [rank.number]), src)
            found = kit_arrays.to_numpy(sent).tolist()
            assert found == [src], f"the {framework} array from rank {src} was {found}"


def _broadcast_object(rank: Rank) -> None:
    for src in range(rank.size):
        found = rank.group.broadcast_object(_object(rank.number), src)
        assert found == _object(src), f"{found} arrived from rank {src}"


def _gather_objects(rank: Rank) -> None:
    everything, dst = [_object(src) for src in range(rank.size)], rank.size - 1
    found = rank.group.gather_objects(_object(rank.number))
    assert found == everything, f"{found} arrived instead of {everything}"
    found = rank.group.gather_objects(_object(rank.number), dst=dst)
    expected = everything if rank.number == dst else []
    assert found == expected, f"with dst={dst}, {found} arrived instead of {expected}"


def _object(number: int) -> list[Any]:
    return ["object of rank", number] * (number + 1)


def _refuse_objects(rank: Rank) -> None:
    collectives: list[Callable[[Any], Any]] = [rank.group.gather_objects]
    if rank.size == 1:  # Otherwise, the other ranks would wait for the source.
        collectives.append(rank.group.broadcast_object)
    for collective in collectives:
        try:
            collective(rank.world)
        except TypeError:
            continue
        raise AssertionError(
            f"{collective.__name__} took an object of a class: exchange what "
            "rltrain.data.pack_object returns, and read it with unpack_object. Unpickling other "
            "objects can run any code"
        )


def _barrier(rank: Rank) -> None:
    for late in range(rank.size):
        if rank.number == late:
            time.sleep(LATE)
        (rank.folder / f"arrived.{late}.{rank.number}").touch()
        rank.group.barrier()
        arrived = len(list(rank.folder.glob(f"arrived.{late}.*")))
        assert arrived == rank.size, (
            f"rank {late} was late, and this rank left when {arrived} of {rank.size} had arrived"
        )


def _seed(rank: Rank) -> list[float]:
    samples = []
    for number in (11, 11, 12):
        rank.plugins.hook.rltrain_seed(stream="model", seed=number)
        samples.append(kit_arrays.sample(rank.framework, rank.world.device))
    first, again, other = samples
    assert first == again, (
        f"after the same seed, it gives {first} and {again}: rltrain_seed must seed the "
        "framework's global generator with exactly the seed that it is given"
    )
    assert other != first, f"after two different seeds, it gives {other} both times"
    return first


def _wrap_model(rank: Rank) -> None:
    model = kit_arrays.small_model(rank.framework, 3.0 + rank.number, rank.world.device)
    interface = kit_arrays.interface(model)
    rank.model = rank.session.wrap_model(model, "policy")
    lacking = sorted(interface - kit_arrays.interface(rank.model))
    assert not lacking, (
        f"the wrapped model lacks {lacking}: return the model itself, or for jax a pytree of the "
        "same structure, shapes and dtypes"
    )


def _wrapped_state(rank: Rank) -> None:
    state = {**kit_arrays.parameters(rank.model), **kit_arrays.buffers(rank.model)}
    for name, x in state.items():
        values = kit_arrays.to_numpy(x)
        assert (values == 3.0).all(), f"{name} is {values.tolist()}; on rank 0 it is 3.0"


def _fingerprints(rank: Rank) -> list[str]:
    assert [*rank.watched] == ["policy"], (
        f'session.watch("policy", ...) was not called; watched: {[*rank.watched]}'
    )
    read, parameters = rank.watched["policy"], kit_arrays.parameters(rank.model)
    for parameter in parameters.values():
        parameter.detach().fill_(1.0)
    # As text, because that is what the divergence check compares.
    equal = [repr(dict(read())), repr(dict(read()))]
    last = equal[-1]
    for name, parameter in parameters.items():
        parameter.detach().view(-1)[-1:].add_(1)
        before, last = last, repr(dict(read()))
        assert last != before, f"the fingerprints stayed the same when {name} changed"
    return equal


def _close(rank: Rank) -> None:
    rank.group.close()
    rank.group.close()


CHECKS: dict[str, Callable[[Rank], Any]] = {
    check.__name__.removeprefix("_"): check
    for check in (
        *(_place, _seed, _all_reduce, _keep_form, _broadcast, _broadcast_object, _gather_objects),
        *(_refuse_objects, _barrier, _wrap_model, _wrapped_state, _fingerprints, _close),
    )
}
"""By name, in the order in which every rank runs them. What they assert is the kit's rule."""


def main() -> None:
    """Run every check, even if one raises."""
    rank = Rank(*sys.argv[1:])
    for name, check in CHECKS.items():
        faulthandler.dump_traceback_later(CHECK_TIMEOUT, exit=True)
        try:
            outcome: dict[str, Any] = {"result": check(rank)}
        except AssertionError as error:
            outcome = {"error": str(error)}
        except Exception:
            outcome = {"error": traceback.format_exc()}
        folder = rank.folder / name
        folder.mkdir(exist_ok=True)
        (folder / f"outcome.{rank.number}").write_text(json.dumps(outcome))
        if check is _place and "error" in outcome:
            break  # Without a group, no other check means anything.
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
