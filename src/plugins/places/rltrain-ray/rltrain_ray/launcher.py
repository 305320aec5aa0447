"""The launcher `ray`: an actor on each node starts the node's ranks."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

# Ray reads it when it is imported. Lines of a run may repeat.
os.environ.setdefault("RAY_DEDUP_LOGS", "0")

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rltrain.config import Placement
from rltrain.errors import PeerLost, RankFailed, RltrainError, UsageError
from rltrain.launch import SECRET
from rltrain.types import TrainResult
from rltrain_ray.connection import connected, ended_by_sigterm
from rltrain_ray.options import RayOptions

__all__ = [
    "Node",
    "RayLauncher",
    "error_of",
    "error_to_show",
    "place_of",
    "request",
]

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

        Raises:
            UsageError: the cluster is not there, or has too little.
            RankFailed: a rank or a node failed.
        """
        with connected(self._options), ended_by_sigterm():
            for left in range(config.max_restarts, 0, -1):
                try:
                    return self._attempt(config, work)
                except RankFailed as error:
                    print(
                        f"{error}\nStarting all nodes again; restarts left: {left - 1}.", flush=True
                    )
            return self._attempt(config, work)

    def _attempt(self, config: Placement, work: Callable[..., TrainResult]) -> TrainResult:
        with _reserved(config, self._options) as group:
            actors = _actors(config, self._options, group)
            try:
                again = self._again(config)
                return _run(config, work, actors, again, self._options.cpus_per_rank)
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


class _NodeLost(RankFailed):
    """A node has gone, and only Ray says so."""


class Node:
    """Runs on a node. Ray shows its name before each line that the node prints."""

    def endpoint(self) -> tuple[str, int]:
        """Return the node's address, and a free port."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return ray.util.get_node_ip_address(), probe.getsockname()[1]

    def run(
        self,
        work: Callable[..., TrainResult],
        options: Mapping[str, Any],
        cpus_per_rank: int,
        secret: str,
    ) -> TrainResult:
        """Start the node's ranks and wait for them. The nodes know each other by the secret."""
        os.environ.setdefault(SECRET, secret)
        # Unless the user has set it, Ray allows each of them the threads of all.
        if b"OMP_NUM_THREADS=" not in Path("/proc/self/environ").read_bytes():
            os.environ["OMP_NUM_THREADS"] = str(max(cpus_per_rank, 1))
        try:
            return work(options)
        except RankFailed as error:
            if "node_rank" not in options or _is_consequence(error):
                raise
            node = f"Node {options['node_rank']} ({socket.gethostname()})"
            text = f"{node} failed. {error}"
            raise RankFailed(text, rank=error.rank, exit_code=error.exit_code) from None


def request(config: Placement, options: RayOptions) -> dict[str, float]:
    """Return what a node's ranks need, by Ray's names of resources."""
    ranks = int(config.nproc_per_node or 1)
    needed = {"CPU": float(ranks * options.cpus_per_rank)}
    if config.device_kind != "cpu":
        needed["GPU"] = float(ranks)
    return {name: amount for name, amount in needed.items() if amount}


@contextlib.contextmanager
def _reserved(config: Placement, options: RayOptions) -> Iterator[PlacementGroup]:
    """Reserve what all nodes need.

    Raises:
        UsageError: the cluster does not have it in time.
    """
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
                "with --nnodes, --num-gpus or --nproc-per-node, or add nodes."
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


def _run(
    config: Placement,
    work: Callable[..., TrainResult],
    actors: list[Any],
    again: Mapping[str, Any],
    cpus_per_rank: int,
) -> TrainResult:
    """Start the run on all nodes, and wait for them."""
    meeting = _endpoints(actors)[0] if len(actors) > 1 else None
    shared, secret = ray.put(work), secrets.token_hex(32)
    calls = [
        actor.run.remote(
            shared, {**place_of(config, number, meeting), **again}, cpus_per_rank, secret
        )
        for number, actor in enumerate(actors)
    ]
    errors: dict[int, Exception] = {}
    waiting, deadline = list(calls), float("inf")
    while waiting and time.monotonic() < deadline:
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


def _endpoints(actors: list[Any]) -> list[tuple[str, int]]:
    """Return the addresses of the nodes, once all actors have started.

    Raises:
        UsageError: a node cannot start one.
        RankFailed: a node was lost.
    """
    endpoints: list[tuple[str, int]] = []
    for number, actor in enumerate(actors):
        try:
            endpoints.append(ray.get(actor.endpoint.remote()))
        except RayError as error:
            raise error_of(error, number) from None
    return endpoints


def place_of(config: Placement, number: int, meeting: tuple[str, int] | None) -> dict[str, Any]:
    """Return the options of a node: its devices are those that were reserved, not all it has.

    Args:
        config: the planned run.
        number: the node's.
        meeting: address and port on node 0, if there are several nodes.
    """
    place: dict[str, Any] = {"cluster": "none", "backend": config.backend}
    if meeting is not None:
        place |= {"master_addr": meeting[0], "master_port": meeting[1], "node_rank": number}
    return place


def error_of(error: RayError, node: int) -> Exception:
    """Return the error that a node's launcher raised, or that of a node that has gone."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, RltrainError):
        return error.cause
    if isinstance(error, ActorDiedError) and error.actor_init_failed:
        cause = str(error).strip().splitlines()[-1].strip()
        return UsageError(
            f"--launcher ray: node {node} cannot start rltrain: {cause}. Install rltrain-ray and "
            "the run's plugins on every node, for the Python with which Ray was started there."
        )
    return _NodeLost(f"Ray lost node {node}, or its actor failed. {error}")


def error_to_show(errors: Mapping[int, Exception]) -> Exception:
    """Return the error of the node that failed by itself, else of one that can name a lost one.

    Args:
        errors: by node, in the order in which they came.
    """
    return min(
        errors.values(),
        key=lambda error: (isinstance(error, _NodeLost), _is_consequence(error)),
    )


def _is_consequence(error: Exception) -> bool:
    """Whether a launcher only says that another node has failed."""
    return isinstance(error, PeerLost) or (isinstance(error, RankFailed) and error.rank is None)
