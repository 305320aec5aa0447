"""The Ray cluster: the connection to it, and what runs on each of its nodes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from rltrain.errors import EndedBySignal, PeerLost, RankFailed, RltrainError, UsageError
from rltrain.types import TrainResult
from rltrain_ray.plugin import RayOptions

_ANSWER = 10.0
"""Seconds in which the cluster's address must answer. Ray itself would try for minutes."""


@contextlib.contextmanager
def connected(options: RayOptions) -> Iterator[None]:
    """Connect to the cluster, or start one; leave it afterwards."""
    if ray.is_initialized():  # By the user's own script, which keeps it.
        yield
        return
    address = address_of(options, os.environ)
    try:
        with contextlib.chdir("/"):  # Nodes would look for modules here first.
            try:
                ray.init(address=address, include_dashboard=None, logging_level="warning")
            except ConnectionError:
                if address != "auto":
                    raise
                text = "no Ray cluster runs here: starting one on this machine, for this run"
                print(text, flush=True)
                ray.init(address="local", include_dashboard=False, logging_level="warning")
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = f"ray.address={options.address}" if options.address else "--launcher ray"
        raise UsageError(f"{where}: there is no Ray cluster to connect to: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def address_of(options: RayOptions, environ: Mapping[str, str]) -> str:
    """Return the cluster's address, for ray.init: "auto" for the one that runs on this machine."""
    address = options.address or environ.get("RAY_ADDRESS") or "auto"
    label = f"{'ray.address' if options.address else 'RAY_ADDRESS'}={address}"
    if address.startswith("ray://"):
        raise UsageError(
            f"{label}: Ray Client cannot start a run. Type the command on a node of the cluster, "
            "or submit it with `ray job submit`; without this address."
        )
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
        except OSError as error:
            raise UsageError(
                f"{label}: nothing answers there: {error}. Give the address that `ray start "
                "--head` has printed, or leave it out on a node of the cluster."
            ) from error
    return address


class Endpoint(NamedTuple):
    """Where a node's launcher runs."""

    address: str
    port: int
    process: int


class NodeLost(RankFailed):
    """A node has gone, and only Ray reports it."""


class Node:
    """Runs on a node. Ray shows its name before each line that the node prints."""

    def endpoint(self) -> Endpoint:
        """Return where it runs, with a free port."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            address, port = ray.util.get_node_ip_address(), probe.getsockname()[1]
        return Endpoint(address, port, os.getpid())

    def run(
        self,
        work: Callable[..., TrainResult],
        options: Mapping[str, Any],
        cpus_per_rank: int,
    ) -> TrainResult:
        """Start the node's ranks and wait for them."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # Ray blocks it.
        # Unless the user has set it, Ray allows each of them the threads of all.
        if b"OMP_NUM_THREADS=" not in Path("/proc/self/environ").read_bytes():
            os.environ["OMP_NUM_THREADS"] = str(max(cpus_per_rank, 1))
        try:
            return work(options)
        except EndedBySignal:
            raise
        except RankFailed as error:
            if "node_rank" not in options or _is_consequence(error):
                raise
            node = f"Node {options['node_rank']} ({socket.gethostname()})"
            text = f"{node} failed. {error}"
            raise RankFailed(text, rank=error.rank, exit_code=error.exit_code) from None
        except KeyboardInterrupt:  # Ray would take it for its own.
            raise EndedBySignal("Interrupted.", rank=None, exit_code=130) from None


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
    return NodeLost(f"Ray lost node {node}, or its actor failed. {error}")


def error_to_show(errors: Mapping[int, Exception]) -> Exception:
    """Return the error of the node that failed by itself, else of one that can name a lost one.

    The errors are by node, in the order in which they came.
    """
    return min(
        errors.values(),
        key=lambda error: (isinstance(error, NodeLost), _is_consequence(error)),
    )


def _is_consequence(error: Exception) -> bool:
    """Whether a launcher only reports that another node has failed."""
    return isinstance(error, PeerLost) or (isinstance(error, RankFailed) and error.rank is None)
