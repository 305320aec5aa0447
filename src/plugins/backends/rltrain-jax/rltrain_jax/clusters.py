"""Ranks of `python -m skrl.utils.distributed.jax`."""

from __future__ import annotations

from collections.abc import Mapping

from rltrain.clusters import StartedRank, number_or_none, read_rank

_VARIABLES = ("JAX_RANK", "JAX_LOCAL_RANK", "JAX_WORLD_SIZE")


def skrl_jax(environ: Mapping[str, str]) -> StartedRank | None:
    """Return the place of a rank of skrl's launcher; it does not say how many a node has."""
    if not all(environ.get(name) for name in _VARIABLES):
        return None
    rank, local, size = _VARIABLES
    return StartedRank(
        world=read_rank(environ, rank=rank, local_rank=local, world_size=size, local_world_size=""),
        variables=_VARIABLES,
        master_addr=environ.get("JAX_COORDINATOR_ADDR"),
        master_port=number_or_none(environ.get("JAX_COORDINATOR_PORT")),
    )
