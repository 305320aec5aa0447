"""A node of a run on Ray: what runs there, and how its errors arrive."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from rltrain.errors import EndedBySignal, PeerLost, RankFailed, RltrainError, UsageError
from rltrain.types import TrainResult


class Endpoint(NamedTuple):
    """Where a node's launcher runs."""

    address: str
    port: int
    process: int


class NodeLost(RankFailed):
    """A node has gone, and only Ray says so."""


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

    Args:
        errors: by node, in the order in which they came.
    """
    return min(
        errors.values(),
        key=lambda error: (isinstance(error, NodeLost), _is_consequence(error)),
    )


def _is_consequence(error: Exception) -> bool:
    """Whether a launcher only says that another node has failed."""
    return isinstance(error, PeerLost) or (isinstance(error, RankFailed) and error.rank is None)
