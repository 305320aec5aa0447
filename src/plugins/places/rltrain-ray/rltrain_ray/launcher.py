"""The launcher `ray`: an actor on each node starts the node's ranks."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

# Ray reads them when it is imported. Lines of a run may repeat, and colors are shown as text.
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
os.environ.setdefault("RAY_COLOR_PREFIX", "0")

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rltrain.config import Placement
from rltrain.errors import RankFailed, UsageError
from rltrain.launch import ended_by_signal
from rltrain.nodes import CaughtSignals, caught_signals
from rltrain.types import TrainResult
from rltrain_ray.cluster import Endpoint, Node, connected, error_of, error_to_show
from rltrain_ray.plugin import RayOptions

_OUTPUT = 1.5
"""Seconds in which Ray brings what the nodes have printed last. It says nowhere when it is done."""

_ENDING = 60.0
"""Seconds in which the other nodes must have ended after one has failed: they notice within 15."""

_REFUSED = 10.0
"""The same after one has refused the run: it may never meet the others, who would wait for it."""

_POLL = 1.0
"""Seconds between two checks for signals."""

_SAME = 0.5
"""Seconds in which a signal that arrives again is the same one: timeout(1) sends it twice."""


class RayLauncher:
    """Starts one actor on each node, in a placement group."""

    def __init__(self, options: RayOptions) -> None:
        self._options = options
        self._name = f"ray-{uuid.uuid4().hex[:8]}"

    def launch(self, config: Placement, work: Callable[..., TrainResult]) -> TrainResult:
        """Start the nodes, wait for them, and return what rank 0 returned.

        After a failure all nodes start again, on those that the cluster has then, as often as
        --max-restarts says, and continue from the newest checkpoint.
        """
        with connected(self._options), caught_signals() as signals:
            for left in range(config.max_restarts, 0, -1):
                try:
                    return self._attempt(config, work, signals)
                except RankFailed as error:
                    if not error.may_restart:
                        raise
                    print(
                        f"{error}\nStarting all nodes again; restarts left: {left - 1}.", flush=True
                    )
            return self._attempt(config, work, signals)

    def _attempt(
        self, config: Placement, work: Callable[..., TrainResult], signals: CaughtSignals
    ) -> TrainResult:
        cpus_per_rank, again = self._options.cpus_per_rank, {}
        if config.max_restarts:  # The run's starts find each other's checkpoints by its name.
            name = getattr(config, "run_name", None) or self._name
            again = {"max_restarts": 0, "auto_resume": True, "run_name": name}
        with _reserved(config, self._options, signals) as group:
            needed, kind = request(config, self._options), ray.remote(Node)
            actors = [
                kind.options(
                    num_cpus=needed.get("CPU", 0),
                    num_gpus=needed.get("GPU", 0),
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group, number),
                ).remote()
                for number in range(config.nnodes)
            ]
            try:
                first = _endpoints(actors, signals)[0]
                meeting = (first.address, first.port) if len(actors) > 1 else None
                shared = ray.put(work)
                calls = [
                    actor.run.remote(
                        shared, {**options_of(config, number, meeting), **again}, cpus_per_rank
                    )
                    for number, actor in enumerate(actors)
                ]
                return _wait(calls, signals, lambda number: _ask(group, first.process, number))
            finally:
                for actor in actors:  # Ranks end with the process that started them.
                    ray.kill(actor)
                time.sleep(_OUTPUT)


def request(config: Placement, options: RayOptions) -> dict[str, float]:
    """Return what a node's ranks need, by Ray's names of resources."""
    ranks = int(config.nproc_per_node or 1)
    needed = {"CPU": float(ranks * options.cpus_per_rank)}
    if config.device_kind != "cpu":
        needed["GPU"] = float(ranks)
    return {name: amount for name, amount in needed.items() if amount}


@contextlib.contextmanager
def _reserved(
    config: Placement, options: RayOptions, signals: CaughtSignals
) -> Iterator[PlacementGroup]:
    """Reserve what all nodes need."""
    needed = request(config, options) or {"CPU": 0.001}
    strategy = "STRICT_SPREAD" if config.nnodes > 1 else "STRICT_PACK"
    group = placement_group([needed] * config.nnodes, strategy=strategy)
    words = " and ".join(f"{amount:g} {name}" for name, amount in needed.items())
    asked = f"{config.nnodes} node(s) with {words} each"
    print(f"asking Ray for {asked}", flush=True)
    try:
        if not _ready([group.ready()], signals, config.join_timeout):
            have = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            there = "; ".join(
                ", ".join(f"{node.get(name, 0):g} {name}" for name in needed) for node in have
            )
            raise UsageError(
                f"--launcher ray: the run needs {asked}, and Ray did not have that free within "
                f"{config.join_timeout} s (--join-timeout). Its nodes have {there}. Ask for less "
                "with --nnodes or --nproc-per-node, or add nodes."
            )
        yield group
    finally:
        remove_placement_group(group)


def _ready(calls: list[Any], signals: CaughtSignals, timeout: float = float("inf")) -> bool:
    """Wait until all calls are done, and return whether they are; a signal ends the run."""
    deadline, waiting = time.monotonic() + timeout, calls
    while waiting and (left := deadline - time.monotonic()) > 0:
        _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=min(left, _POLL))
        for number in signals.take():
            raise ended_by_signal(number)
    return not waiting


def _ask(group: PlacementGroup, process: int, number: int) -> None:
    """Send a signal to a process of the first node; its ranks let those of the others know."""
    there = PlacementGroupSchedulingStrategy(group, 0)
    send = ray.remote(num_cpus=0, max_retries=0)(_send).options(scheduling_strategy=there)
    send.remote(process, number)


def _send(process: int, number: int) -> None:
    os.kill(process, number)


def _wait(calls: list[Any], signals: CaughtSignals, ask: Callable[[int], None]) -> TrainResult:
    """Wait for all nodes, pass on the first signal, and return what rank 0 returned."""
    errors: dict[int, Exception] = {}
    waiting, deadline, asked_at = list(calls), float("inf"), 0.0
    while waiting and time.monotonic() < deadline:
        for number in signals.take():
            if not asked_at:
                asked_at = time.monotonic()
                ask(number)
            elif time.monotonic() - asked_at > _SAME:
                raise ended_by_signal(number)
        done, waiting = ray.wait(waiting, timeout=_POLL)
        for call in done:
            try:
                ray.get(call)
            except RayError as error:
                failed = errors[calls.index(call)] = error_of(error, calls.index(call))
                time_left = _REFUSED if isinstance(failed, UsageError) else _ENDING
                deadline = min(deadline, time.monotonic() + time_left)
    if errors:
        cause = error_to_show(errors)
        if asked_at and isinstance(cause, RankFailed):
            cause.may_restart = False
        raise cause
    result: TrainResult = ray.get(calls[0])
    return result


def _endpoints(actors: list[Any], signals: CaughtSignals) -> list[Endpoint]:
    """Return where the nodes' launchers run, once all actors have started."""
    calls = [actor.endpoint.remote() for actor in actors]
    _ready(calls, signals)
    endpoints: list[Endpoint] = []
    for number, call in enumerate(calls):
        try:
            endpoints.append(ray.get(call))
        except RayError as error:
            raise error_of(error, number) from None
    return endpoints


def options_of(config: Placement, number: int, meeting: tuple[str, int] | None) -> dict[str, Any]:
    """Return the options of a node: its devices are those that were reserved, not all it has.

    `meeting` is the address and port on node 0, if there are several nodes.
    """
    options: dict[str, Any] = {"cluster": "none", "backend": config.backend}
    if meeting is not None:
        options |= {"master_addr": meeting[0], "master_port": meeting[1], "node_rank": number}
    return options
