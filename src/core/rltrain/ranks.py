"""Where a rank stands: joining ranks that somebody started, counting ranks, choosing devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping

from rltrain.config import RunConfig, flag
from rltrain.errors import UsageError
from rltrain.types import World

__all__ = [
    "available_cores",
    "count_ranks",
    "hide_rank_variables",
    "joined_world",
    "rank_device",
    "select_gpus",
]

MAX_CPU_RANKS = 8
"""Ranks on a machine without GPUs, when the user does not say."""

_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


def joined_world(environ: Mapping[str, str], device: str = "cpu") -> World | None:
    """Return this rank's place, if a launcher such as torchrun started it; else None.

    Clusters such as PAI-DLC set RANK and WORLD_SIZE too, but count nodes with them: only together
    with LOCAL_RANK do they speak of ranks.

    Raises:
        UsageError: the variables contradict each other.
    """
    if not all(environ.get(name) for name in _RANK_VARIABLES):
        return None
    try:
        rank, local_rank, world_size = (int(environ[name]) for name in _RANK_VARIABLES)
        local_world_size = int(environ.get("LOCAL_WORLD_SIZE") or world_size)
        node_rank = int(environ.get("GROUP_RANK") or rank // max(local_world_size, 1))
        num_nodes = int(environ.get("GROUP_WORLD_SIZE") or -(-world_size // local_world_size))
    except (ValueError, ZeroDivisionError):
        values = ", ".join(f"{name}={environ[name]}" for name in _RANK_VARIABLES)
        raise UsageError(f"The environment's {values} are not numbers of ranks.") from None
    if not (0 <= rank < world_size and 0 <= local_rank < local_world_size <= world_size):
        raise UsageError(
            f"The environment contradicts itself: RANK={rank}, LOCAL_RANK={local_rank}, "
            f"LOCAL_WORLD_SIZE={local_world_size}, WORLD_SIZE={world_size}. Unset these variables, "
            "or start rltrain with torchrun."
        )
    return World(rank, local_rank, node_rank, world_size, local_world_size, num_nodes, device)


def hide_rank_variables(environ: MutableMapping[str, str]) -> None:
    """Remove variables that would make a library believe it is one of several ranks."""
    for name in _RANK_VARIABLES:
        environ.pop(name, None)


def available_cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0))


def select_gpus(config: RunConfig, visible: int) -> tuple[int, ...]:
    """Return the GPUs that the user chose, as indices into the visible ones.

    Args:
        config: its `gpu_ids` and `num_gpus`.
        visible: how many GPUs there are.

    Raises:
        UsageError: they are not there.
    """
    there = f"{visible} GPU{'s are' if visible != 1 else ' is'} visible" if visible else None
    if config.gpu_ids == "all" and not visible:
        raise UsageError("--gpu-ids all: no GPU is visible. For the CPU: --gpu-ids None.")
    if isinstance(config.gpu_ids, tuple):
        missing = [index for index in config.gpu_ids if index >= visible]
        if missing:
            raise UsageError(
                f"--gpu-ids {' '.join(map(str, config.gpu_ids))}: there is no GPU {missing[0]}: "
                f"{there or 'no GPU is visible'}"
                + (f", 0 to {visible - 1}." if visible else ". For the CPU: --gpu-ids None.")
            )
        return config.gpu_ids
    if config.num_gpus is not None and config.num_gpus > visible:
        raise UsageError(
            f"--num-gpus {config.num_gpus}: {there or 'no GPU is visible'}. "
            "For ranks on the CPU: --nproc-per-node."
        )
    return tuple(range(config.num_gpus or visible))


def count_ranks(config: RunConfig, device: str, gpus: tuple[int, ...]) -> int:
    """Return how many ranks this node starts.

    Raises:
        UsageError: more than one rank would share a GPU.
    """
    cores = available_cores()
    asked = config.nproc_per_node
    if asked == "gpu" and device == "cpu":
        raise UsageError("--nproc-per-node gpu: the run is on the CPU; use a number, or cpu.")
    if asked == "cpu":
        asked = cores
    if asked in (None, "gpu"):
        return len(gpus) if device != "cpu" else min(cores, MAX_CPU_RANKS)
    number = int(asked)
    if device != "cpu" and number > len(gpus):
        raise UsageError(
            f"{flag('nproc_per_node')} {number}: only {len(gpus)} GPU(s) are visible or chosen; "
            "each rank needs its own. For ranks on the CPU: --device cpu."
        )
    return number


def rank_device(kind: str, local_rank: int, visible: int) -> str:
    """Return a rank's device.

    A scheduler that shows each rank only its own GPU leaves one visible: it is every rank's first.

    Raises:
        UsageError: there are fewer devices than ranks on this node.
    """
    if kind == "cpu":
        return "cpu"
    index = 0 if visible == 1 else local_rank
    if index >= visible:
        raise UsageError(
            f"Local rank {local_rank} has no GPU of its own: {visible} are visible on this node. "
            "Start fewer ranks a node, or use --device cpu."
        )
    return f"{kind}:{index}"
