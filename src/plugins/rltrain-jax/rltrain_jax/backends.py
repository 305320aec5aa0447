"""The backends `jax` (CPU) and `jax-cuda`."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from typing import Any

import jax

from rltrain import hookimpl
from rltrain.config import Placement, endpoint
from rltrain.errors import UsageError
from rltrain.launch import Member, is_loopback, meet, reachable_address
from rltrain.session import Session
from rltrain.types import World
from rltrain_jax.coordination import set_gloo_address
from rltrain_jax.devices import local_device
from rltrain_jax.group import JaxProcessGroup
from rltrain_jax.trees import broadcast_tree
from rltrain_jax.workarounds import initialize_quietly

__all__ = ["JaxBackend", "JaxCudaBackend", "coordinator"]


class _JaxBackend:
    """What every jax backend does."""

    make_group: Callable[[World], JaxProcessGroup] = JaxProcessGroup
    """Makes the process group once `jax.distributed` is initialized."""

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
            self._group.abandon(error)

    def _join(
        self, world: World, config: Placement, local_device_ids: list[int] | None
    ) -> JaxProcessGroup:
        """Join the ranks at the address where rank 0 hosts the coordinator."""
        if world.world_size > 1:
            host, port = coordinator(config, os.environ)
            meet(Member("rank", world.rank, world.world_size), host, port, config.join_timeout)
            _initialize(world, host, port, local_device_ids)
        self._group = type(self).make_group(world)
        return self._group


class JaxBackend(_JaxBackend):
    """jax on the CPU."""

    @hookimpl
    def rltrain_init_distributed(self, world: World, config: Placement) -> JaxProcessGroup:
        """Join the ranks over gloo."""
        # Otherwise every rank would open all GPUs and allocate their memory.
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", 1)
        return self._join(world, config, None)


class JaxCudaBackend(_JaxBackend):
    """jax on CUDA."""

    @hookimpl
    def rltrain_init_distributed(self, world: World, config: Placement) -> JaxProcessGroup:
        """Join the ranks over NCCL."""
        return self._join(world, config, [int(world.device.partition(":")[2] or 0)])


def coordinator(config: Placement, environ: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port of jax's coordinator.

    The user's --coordinator-address, or else MASTER_ADDR and MASTER_PORT, which the launcher or
    the plan has set.

    Raises:
        UsageError: neither is known.
    """
    if config.coordinator_address is not None:
        return config.master_addr, config.master_port
    host, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT", "")
    if not host or not port.isdecimal():
        raise UsageError(
            "MASTER_ADDR and MASTER_PORT are not set, so jax's ranks cannot find each other. Set "
            "them on every rank, or add --coordinator-address HOST:PORT."
        )
    # torchrun's own store listens on the port itself.
    return host, int(port) + (environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True")


def _initialize(world: World, host: str, port: int, local_device_ids: list[int] | None) -> None:
    address = endpoint(host, port)
    with initialize_quietly():
        jax.distributed.initialize(
            num_processes=world.world_size,
            process_id=world.rank,
            local_device_ids=local_device_ids,
            coordinator_address=address,
            cluster_detection_method="deactivate",
            # jax would listen on all interfaces.
            coordinator_bind_address=address if is_loopback(host) else None,
        )
    own = reachable_address(host, world.num_nodes)
    if own is not None:
        set_gloo_address(own)
