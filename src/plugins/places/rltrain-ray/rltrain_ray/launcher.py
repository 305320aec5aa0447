"""The launcher `ray`: an actor on each node starts the node's ranks."""

from __future__ import annotations

import contextlib
import functools
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# Ray reads them when it is imported. Lines of a run may repeat, and colors are shown as text.
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
os.environ.setdefault("RAY_COLOR_PREFIX", "0")

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rltrain.config import Placement
from rltrain.errors import RankFailed, UsageError
from rltrain.types import TrainResult
from rltrain_ray.asked import Asked, handled_requests
from rltrain_ray.connection import connected
from rltrain_ray.nodes import Endpoint, Node, error_of, error_to_show
from rltrain_ray.options import RayOptions

_OUTPUT = 1.5
"""Seconds in which Ray brings what the nodes have printed last. It says nowhere when it is done."""

_ENDING = 60.0
"""Seconds in which the other nodes must have ended after one has failed: they notice within 17."""

_REFUSED = 10.0
"""The same after one has refused the run: it may never meet the others, who would wait for it."""


class RayLauncher:
    """Starts one actor on each node, in a placement group."""

    def __init__(self, options: RayOptions) -> None:
        self._options = options
        self._name = f"ray-{uuid.uuid4().hex[:8]}"

    def launch(self, config: Placement, work: Callable[..., TrainResult]) -> TrainResult:
        """Start the nodes, wait for them, and return what rank 0 returned.

        After a failure all nodes start again, on those that the cluster has then, as often as
        --max-restarts says, and go on from the newest checkpoint.
        """
        with connected(self._options), handled_requests() as asked:
            for left in range(config.max_restarts, 0, -1):
                try:
                    return self._attempt(config, work, asked)
                except RankFailed as error:
                    if asked.last is not None:
                        raise
                    print(
                        f"{error}\nStarting all nodes again; restarts left: {left - 1}.", flush=True
                    )
            return self._attempt(config, work, asked)

    def _attempt(
        self, config: Placement, work: Callable[..., TrainResult], asked: Asked
    ) -> TrainResult:
        with _reserved(config, self._options) as group:
            actors = _actors(config, self._options, group)
            try:
                first = _endpoints(actors)[0]
                again = self._again(config)
                calls = _start(config, work, actors, first, again, self._options.cpus_per_rank)
                return _wait(calls, asked, functools.partial(_ask, group, first.process))
            finally:
                for actor in actors:  # Ranks end with the process that started them.
                    ray.kill(actor)
                time.sleep(_OUTPUT)

    def _again(self, config: Placement) -> dict[str, Any]:
        """Return the options by which the run's starts find each other's checkpoints."""
        if config.max_restarts == 0:
            return {}
        name = getattr(config, "run_name", None) or self._name
        return {"max_restarts": 0, "auto_resume": True, "run_name": name}


def request(config: Placement, options: RayOptions) -> dict[str, float]:
    """Return what a node's ranks need, by Ray's names of resources."""
    ranks = int(config.nproc_per_node or 1)
    needed = {"CPU": float(ranks * options.cpus_per_rank)}
    if config.device_kind != "cpu":
        needed["GPU"] = float(ranks)
    return {name: amount for name, amount in needed.items() if amount}


@contextlib.contextmanager
def _reserved(config: Placement, options: RayOptions) -> Iterator[PlacementGroup]:
    """Reserve what all nodes need."""
    needed = request(config, options) or {"CPU": 0.001}
    strategy = "STRICT_SPREAD" if config.nnodes > 1 else "STRICT_PACK"
    group = placement_group([needed] * config.nnodes, strategy=strategy)
    words = " and ".join(f"{amount:g} {name}" for name, amount in needed.items())
    asked = f"{config.nnodes} node(s) with {words} each"
    print(f"asking Ray for {asked}", flush=True)
    try:
        try:
            ray.get(group.ready(), timeout=config.join_timeout)
        except GetTimeoutError:
            have = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            there = "; ".join(
                ", ".join(f"{node.get(name, 0):g} {name}" for name in needed) for node in have
            )
            raise UsageError(
                f"--launcher ray: the run needs {asked}, and Ray did not have that free within "
                f"{config.join_timeout} s (--join-timeout). Its nodes have {there}. Ask for less "
                "with --nnodes or --nproc-per-node, or add nodes."
            ) from None
        yield group
    finally:
        remove_placement_group(group)


def _actors(config: Placement, options: RayOptions, group: PlacementGroup) -> list[Any]:
    needed = request(config, options)
    kind = ray.remote(Node)
    return [
        kind.options(
            num_cpus=needed.get("CPU", 0),
            num_gpus=needed.get("GPU", 0),
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, number),
        ).remote()
        for number in range(config.nnodes)
    ]


def _start(
    config: Placement,
    work: Callable[..., TrainResult],
    actors: list[Any],
    first: Endpoint,
    again: Mapping[str, Any],
    cpus_per_rank: int,
) -> list[Any]:
    """Start the run on all nodes, and return what Ray promises of each."""
    meeting = (first.address, first.port) if len(actors) > 1 else None
    shared = ray.put(work)
    return [
        actor.run.remote(shared, {**options_of(config, number, meeting), **again}, cpus_per_rank)
        for number, actor in enumerate(actors)
    ]


def _ask(group: PlacementGroup, process: int, number: int) -> None:
    """Send a signal to a process of the first node; its ranks let those of the others know."""
    there = PlacementGroupSchedulingStrategy(group, 0)
    send = ray.remote(num_cpus=0, max_retries=0)(_send).options(scheduling_strategy=there)
    send.remote(process, number)


def _send(process: int, number: int) -> None:
    os.kill(process, number)


def _wait(calls: list[Any], asked: Asked, ask: Callable[[int], None]) -> TrainResult:
    """Wait for all nodes, pass on what this process is asked, and return what rank 0 returned."""
    errors: dict[int, Exception] = {}
    waiting, deadline = list(calls), float("inf")
    with asked.noting() as noted:
        while waiting and time.monotonic() < deadline:
            while noted:
                ask(noted.pop())
            done, waiting = ray.wait(waiting, timeout=1)
            for call in done:
                try:
                    ray.get(call)
                except RayError as error:
                    failed = errors[calls.index(call)] = error_of(error, calls.index(call))
                    time_left = _REFUSED if isinstance(failed, UsageError) else _ENDING
                    deadline = min(deadline, time.monotonic() + time_left)
    if errors:
        raise error_to_show(errors)
    result: TrainResult = ray.get(calls[0])
    return result


def _endpoints(actors: list[Any]) -> list[Endpoint]:
    """Return where the nodes' launchers run, once all actors have started."""
    endpoints: list[Endpoint] = []
    for number, actor in enumerate(actors):
        try:
            endpoints.append(ray.get(actor.endpoint.remote()))
        except RayError as error:
            raise error_of(error, number) from None
    return endpoints


def options_of(config: Placement, number: int, meeting: tuple[str, int] | None) -> dict[str, Any]:
    """Return the options of a node: its devices are those that were reserved, not all it has.

    Args:
        config: the planned run.
        number: the node's.
        meeting: address and port on node 0, if there are several nodes.
    """
    options: dict[str, Any] = {"cluster": "none", "backend": config.backend}
    if meeting is not None:
        options |= {"master_addr": meeting[0], "master_port": meeting[1], "node_rank": number}
    return options
