"""Ranks of torchrun, and of whatever sets its variables: Ray Train, DeepSpeed, Azure ML."""

from __future__ import annotations

from collections.abc import Mapping

from rltrain.clusters import StartedRank, read_port

__all__ = ["find"]

_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


def find(environ: Mapping[str, str]) -> StartedRank | None:
    """Return this rank's place; None unless all three variables are set.

    Clusters such as PAI-DLC set RANK and WORLD_SIZE to count nodes: without LOCAL_RANK they do
    not count ranks.

    Raises:
        UsageError: the variables contradict each other, or the port is none.
    """
    from rltrain.launch import rank_from_env  # Each command imports this module.

    world = rank_from_env(environ)
    if world is None:
        return None
    return StartedRank(
        world=world,
        variables=_VARIABLES,
        master_addr=environ.get("MASTER_ADDR"),
        master_port=read_port(environ, "MASTER_PORT"),
    )
