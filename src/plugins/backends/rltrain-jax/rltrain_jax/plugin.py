"""What this plugin provides. It does not import jax."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rltrain.clusters import StartedRank, number_or_none, read_rank
from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.specs import BackendSpec, ClusterSpec, Dialect, DoctorChecks, GradientSyncSpec, Spec

_OF_SKRL = ("JAX_RANK", "JAX_LOCAL_RANK", "JAX_WORLD_SIZE")


def skrl_jax(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of skrl's launcher; it does not say how many a node has."""
    if not all(environ.get(name) for name in _OF_SKRL):
        return None
    rank, local, size = _OF_SKRL
    return StartedRank(
        world=read_rank(environ, rank=rank, local_rank=local, world_size=size, local_world_size=""),
        variables=_OF_SKRL,
        master_addr=environ.get("JAX_COORDINATOR_ADDR"),
        master_port=number_or_none(environ.get("JAX_COORDINATOR_PORT")),
    )


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare two backends, a cluster and a gradient sync."""
    return [
        BackendSpec(
            name="jax",
            factory="rltrain_jax.backends:JaxBackend",
            framework="jax",
            arrays="rltrain_jax.arrays:JaxArrays",
            exporter="rltrain_jax.exporter:JaxExporter",
            joins_first=True,
            is_default=True,
            launcher="processes",
            grad_sync="tree",
            device="cpu",
        ),
        BackendSpec(
            name="jax-cuda",
            factory="rltrain_jax.backends:JaxCudaBackend",
            framework="jax",
            arrays="rltrain_jax.arrays:JaxArrays",
            exporter="rltrain_jax.exporter:JaxExporter",
            joins_first=True,
            is_default=True,
            launcher="processes",
            grad_sync="tree",
            device="cuda",
            count_devices="rltrain_jax.devices:count_cuda",
        ),
        ClusterSpec(
            name="skrl-jax",
            find=skrl_jax,
            order=0,
            variables=(*_OF_SKRL, "JAX_COORDINATOR_*"),
            frameworks=("jax",),
            summary="ranks of python -m skrl.utils.distributed.jax",
        ),
        GradientSyncSpec(
            name="tree",
            factory="rltrain_jax.gradients:TreeGradientSync",
            frameworks=("jax",),
            summary="one compiled all-reduce of all gradients per step",
        ),
    ]


@hookimpl
def rltrain_checkup() -> DoctorChecks:
    """Say what jax is installed for, and what to try if NCCL fails."""
    from rltrain.nodes import NCCL_FALLBACKS  # Each command imports this module.

    return DoctorChecks(
        facts={"jax": "rltrain_jax.devices:about"}, remedies={"jax-cuda": NCCL_FALLBACKS}
    )


@hookimpl
def rltrain_dialect() -> Dialect:
    """Take the address of jax's coordinator, as skrl's launcher and Isaac Lab's do."""
    return Dialect(program="jax", flags={"--coordinator-address": _master})


def _master(value: str) -> list[str]:
    found = re.fullmatch(r"(\[[^\[\]]+\]|[^:\[\]]+):(\d+)", value)
    if found is None:
        raise UsageError(
            f"--coordinator-address {value}: must be HOST:PORT, such as 10.0.0.1:29500 or "
            "[::1]:29500."
        )
    return [f"--master-addr={found[1]}", f"--master-port={found[2]}"]
