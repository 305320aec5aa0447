"""The backends `jax` (CPU) and `jax-cuda`."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import jax

from rltrain import hookimpl
from rltrain.config import Placement, endpoint
from rltrain.errors import UsageError
from rltrain.launch import cores_of_rank, shared_folder
from rltrain.nodes import (
    Member,
    choose_nccl_interface,
    is_loopback,
    meet,
    reachable_address,
)
from rltrain.session import Session
from rltrain.types import World
from rltrain_jax.compat import initialize_quietly, set_gloo_address
from rltrain_jax.devices import local_device
from rltrain_jax.group import JaxProcessGroup
from rltrain_jax.trees import broadcast_tree

_SOCKET = "coordinator"
"""Where jax's coordinator listens, in the folder that the ranks of one node share."""

_POLL = 0.02
"""Seconds between two checks for it."""


class _JaxBackend:
    """What every jax backend does."""

    _group: JaxProcessGroup | None = None

    @hookimpl
    def rltrain_seed(self, seed: int) -> None:
        """Do nothing: jax has no global generator. Keys are derived from `session.seeds`."""

    @hookimpl
    def rltrain_wrap_model(self, session: Session, model: Any, role: str) -> Any:
        """Return rank 0's pytree, on this rank's device.

        Arrays of jax are immutable, so only the library's adapter knows the tree after a step: it
        registers that one with `rltrain_jax.trees.watch_tree`.
        """
        return broadcast_tree(session.group, model, local_device(session.world.device))

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session: Session) -> Generator[None, Any, Any]:
        """Make this rank's device the default for arrays of the environments."""
        with jax.default_device(local_device(session.world.device)):
            return (yield)

    @hookimpl(wrapper=True)
    def rltrain_train(self, session: Session) -> Generator[None, Any, Any]:
        """Make this rank's device the default for arrays of the library."""
        with jax.default_device(local_device(session.world.device)):
            return (yield)

    @hookimpl
    def rltrain_shutdown(self, error: BaseException | None) -> None:
        """After an error, leave without waiting for peers, which may be gone."""
        if error is not None and self._group is not None:
            self._group.abandon()

    def _join(
        self, world: World, config: Placement, local_device_ids: list[int] | None
    ) -> JaxProcessGroup:
        """Join the ranks where rank 0 hosts the coordinator."""
        folder = shared_folder(world)
        if world.world_size > 1 and folder is not None:
            _wait_for_coordinator(world, folder, config.join_timeout)
            address = f"unix:{_short_path(folder, _SOCKET)}"
            _initialize(world, address, address, local_device_ids)
            set_gloo_address("127.0.0.1")
        elif world.world_size > 1:
            host, port = coordinator(config, os.environ)
            rank = Member("rank", world.rank, world.world_size)
            meet(rank, host, port, config.join_timeout)
            address = endpoint(host, port)
            without_proxy(host, os.environ)
            # jax would listen on all interfaces.
            _initialize(world, address, address if is_loopback(host) else None, local_device_ids)
            own = reachable_address(host, world.num_nodes)
            if own is not None:
                set_gloo_address(own)
        self._group = JaxProcessGroup(world)
        return self._group


class JaxBackend(_JaxBackend):
    """jax on the CPU."""

    @hookimpl
    def rltrain_init_distributed(self, world: World, config: Placement) -> JaxProcessGroup:
        """Join the ranks over gloo."""
        # Otherwise every rank would open all GPUs and allocate their memory.
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", 1)
        # XLA on the CPU reads the second one. Values that the user set win.
        for name in ("OMP_NUM_THREADS", "PJRT_NPROC"):
            os.environ.setdefault(name, str(cores_of_rank(world)))
        return self._join(world, config, None)


class JaxCudaBackend(_JaxBackend):
    """jax on CUDA."""

    @hookimpl
    def rltrain_init_distributed(self, world: World, config: Placement) -> JaxProcessGroup:
        """Join the ranks over NCCL."""
        host = config.master_addr
        if world.num_nodes > 1:
            host, _ = coordinator(config, os.environ)
        choose_nccl_interface(os.environ, world, host)
        return self._join(world, config, [int(world.device.partition(":")[2] or 0)])


def without_proxy(host: str, environ: MutableMapping[str, str]) -> None:
    """Let gRPC, by which jax's ranks meet, ask no proxy (http_proxy) for rank 0's host."""
    others = environ.get("no_grpc_proxy") or environ.get("no_proxy")
    environ["no_grpc_proxy"] = f"{others},{host}" if others else host


def coordinator(config: Placement, environ: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port of jax's coordinator.

    The user's --master-addr and --master-port, or else MASTER_ADDR and MASTER_PORT, which the
    launcher or the plan has set.
    """
    own = config.master_addr, config.master_port
    is_given = own != (Placement.master_addr, Placement.master_port)
    host, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT", "")
    if not host or not port.isdecimal():
        if is_given:
            return own
        raise UsageError(
            "MASTER_ADDR and MASTER_PORT are not set, so jax's ranks cannot find each other. Set "
            "them on every rank, or add --master-addr HOST --master-port PORT."
        )
    if is_given and own != (host, int(port)):
        return own
    # torchrun's own store listens on the port itself.
    return host, int(port) + (environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True")


def _wait_for_coordinator(world: World, folder: Path, timeout: float) -> None:
    """Wait until rank 0 listens in a folder: jax would try again only after a second."""
    deadline = time.monotonic() + timeout
    while not world.is_root and not (folder / _SOCKET).exists():
        if time.monotonic() > deadline:
            raise UsageError(
                f"Rank 0 did not start within {timeout:g} s (--join-timeout): jax's coordinator is "
                "not there. Its log says why."
            )
        time.sleep(_POLL)


def _initialize(
    world: World, address: str, bind_address: str | None, local_device_ids: list[int] | None
) -> None:
    with initialize_quietly():
        jax.distributed.initialize(
            num_processes=world.world_size,
            process_id=world.rank,
            local_device_ids=local_device_ids,
            coordinator_address=address,
            cluster_detection_method="deactivate",
            coordinator_bind_address=bind_address,
        )


def _short_path(folder: Path, name: str) -> str:
    """Return a path for a unix socket in a folder, however long the folder's own path is.

    Linux takes 107 bytes at most. This process keeps the folder open, and the path is good only
    inside of it.
    """
    return f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_DIRECTORY)}/{name}"
