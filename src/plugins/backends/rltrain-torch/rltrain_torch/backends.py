"""The backends `gloo` (CPU, or CUDA through host memory) and `nccl` (CUDA)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from rltrain import hookimpl
from rltrain.config import Placement
from rltrain.errors import RltrainError
from rltrain.launch import shared_folder
from rltrain.nodes import Member, choose_nccl_interface, interface_towards, meet
from rltrain.session import Session
from rltrain.types import World
from rltrain_torch.devices import let_share
from rltrain_torch.group import TorchProcessGroup
from rltrain_torch.networks import OwnNetworks
from rltrain_torch.optimizers import fingerprints
from rltrain_torch.threads import add_for, begin_with_few, share_cores

__all__ = ["GlooBackend", "NcclBackend", "TorchBackend"]


class TorchBackend:
    """The hooks that all backends of torch share."""

    @hookimpl
    def rltrain_seed(self, seed: int) -> None:
        """Seed torch's random generators on all devices."""
        torch.manual_seed(seed)

    @hookimpl
    def rltrain_save_state(self, session: Session) -> dict[str, Any]:
        """Return the states of torch's random generators on the CPU and this rank's GPU."""
        states = {"cpu": torch.get_rng_state().numpy()}
        if session.world.device.startswith("cuda"):
            states["cuda"] = torch.cuda.get_rng_state(session.world.device).numpy()
        return states

    @hookimpl
    def rltrain_load_state(self, session: Session, state: Mapping[str, Any]) -> None:
        """Restore the states of torch's random generators."""
        torch.set_rng_state(torch.from_numpy(state["cpu"]))
        if "cuda" in state and session.world.device.startswith("cuda"):
            torch.cuda.set_rng_state(torch.from_numpy(state["cuda"]), session.world.device)

    @hookimpl
    def rltrain_wrap_model(
        self, session: Session, model: torch.nn.Module, role: str
    ) -> torch.nn.Module:
        """Broadcast a module's state from rank 0 and register it with the divergence check."""
        answers: Callable[[], Mapping[str, Any]] = dict
        if session.group.world_size > 1:
            _broadcast_state(session, model)
            answers = OwnNetworks(session, model, role).answers
        session.watch(role, lambda: {**_fingerprints(model), **answers()})
        add_for(session, model)
        return model

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session: Session) -> Generator[None, Any, Any]:
        """Select this rank's device before and after: simulators change it while they start."""
        _select_device(session.world)
        try:
            return (yield)
        finally:
            _select_device(session.world)

    @hookimpl(wrapper=True)
    def rltrain_train(self, session: Session) -> Generator[None, Any, Any]:
        """Train with the threads that environments and models need; then it is as before."""
        before = torch.get_num_threads()
        begin_with_few(session)
        try:
            return (yield)
        finally:
            torch.set_num_threads(before)

    @hookimpl(wrapper=True)
    def rltrain_load_policy(self, session: Session) -> Generator[None, Any, Any]:
        """Act with the threads that the environments need."""
        begin_with_few(session)
        return (yield)


class GlooBackend(TorchBackend):
    """torch on the CPU, or on CUDA, whose tensors gloo copies through host memory."""

    @hookimpl
    def rltrain_init_distributed(self, world: World, config: Placement) -> TorchProcessGroup:
        """Create a gloo group on the network interface that reaches the master."""
        _select_device(world)
        _meet(world, config)
        share_cores(world)
        # gloo would look up the host's own name, which often resolves to a wrong address.
        interface = interface_towards(_master(config), world.num_nodes)
        if interface is not None:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        return TorchProcessGroup("gloo", world, join_timeout=config.join_timeout)


class NcclBackend(TorchBackend):
    """torch on CUDA."""

    @hookimpl
    def rltrain_init_distributed(self, world: World, config: Placement) -> TorchProcessGroup:
        """Create an NCCL group on this rank's device."""
        _select_device(world)
        _meet(world, config)
        choose_nccl_interface(os.environ, world, _master(config))
        let_share(os.environ, world, config)
        return TorchProcessGroup("nccl", world, join_timeout=config.join_timeout)


def _master(config: Placement) -> str:
    """Return the host at which all ranks meet."""
    return os.environ.get("MASTER_ADDR", config.master_addr)


def _meet(world: World, config: Placement) -> None:
    """Wait for all ranks, where nothing else has done so."""
    if dist.is_initialized() or shared_folder(world) is not None:
        return
    # The agent's own store listens at the address.
    if world.world_size > 1 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        rank = Member("rank", world.rank, world.world_size)
        port = int(os.environ.get("MASTER_PORT", config.master_port))
        meet(rank, _master(config), port, config.join_timeout)


def _select_device(world: World) -> None:
    """Make this rank's GPU torch's default CUDA device."""
    if not world.device.startswith("cuda"):
        return
    try:
        torch.cuda.set_device(world.device)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        raise RltrainError(
            f"Rank {world.rank} cannot open {world.device}: its memory is full. `nvidia-smi` shows "
            "which processes hold it. End them, or use other GPUs: --gpu-ids."
        ) from error


def _broadcast_state(session: Session, model: torch.nn.Module) -> None:
    """Copy rank 0's parameters and buffers to every rank, in one collective per dtype."""
    by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        by_dtype.setdefault(tensor.dtype, []).append(tensor.detach())
    for tensors in by_dtype.values():
        flat = torch.cat([tensor.reshape(-1).to(session.world.device) for tensor in tensors])
        flat = session.group.broadcast(flat)
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))


def _fingerprints(model: torch.nn.Module) -> Mapping[str, Any]:
    return fingerprints(itertools.chain(model.named_parameters(), model.named_buffers()))
