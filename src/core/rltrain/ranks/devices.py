"""The ranks of a node and their devices: how many, and which has which."""

from __future__ import annotations

import dataclasses
import os

from rltrain.errors import UsageError
from rltrain.ranks.machine import available_cores
from rltrain.ranks.world import World

MAX_CPU_RANKS = 8
"""Default maximum of ranks on a machine without GPUs."""


def select_gpus(gpu_ids: tuple[int, ...] | str | None, visible: int) -> tuple[int, ...]:
    """Return the GPUs that the user chose, as indices into the visible ones."""
    there = f"{visible} GPU{'s are' if visible != 1 else ' is'} visible" if visible else None
    if gpu_ids == "all" and not visible:
        raise UsageError("--gpu-ids all: no GPU is visible. For the CPU: --gpu-ids None.")
    if isinstance(gpu_ids, tuple):
        missing = [index for index in gpu_ids if index >= visible]
        if missing:
            raise UsageError(
                f"--gpu-ids {' '.join(map(str, gpu_ids))}: there is no GPU {missing[0]}: "
                f"{there or 'no GPU is visible'}"
                + (f", 0 to {visible - 1}." if visible else ". For the CPU: --gpu-ids None.")
            )
        return gpu_ids
    return tuple(range(visible))


def count_ranks(
    asked: int | str | None,
    device: str,
    gpus: tuple[int, ...],
    shared: bool = False,
    instead: str = "",
) -> int:
    """Return how many ranks this node starts, given the option `nproc_per_node` and its GPUs.

    `shared` says whether ranks may share them, and `instead`, for the error message, how they can.
    """
    cores = available_cores()
    if asked == "gpu" and device == "cpu":
        raise UsageError("--nproc-per-node gpu: the run is on the CPU; use a number, or cpu.")
    if asked == "cpu":
        asked = cores
    if asked in (None, "gpu"):
        return len(gpus) if device != "cpu" else min(cores, MAX_CPU_RANKS)
    number = int(asked)
    if device != "cpu" and number > len(gpus) and not shared:
        raise UsageError(
            f"--nproc-per-node {number}: only {len(gpus)} GPU(s) are visible or chosen; "
            f"each rank needs its own. For ranks on the CPU: --device cpu.{instead}"
        )
    return number


def rank_device(
    kind: str, local_rank: int, visible: int, shared: bool = False, instead: str = ""
) -> str:
    """Return a rank's device, given how many are visible, and whether ranks may share them.

    If only one is visible, every rank uses index 0: schedulers can show each rank only its own GPU.
    `instead` says in the error message how ranks can share GPUs.
    """
    if kind == "cpu":
        return "cpu"
    index = local_rank % visible if shared or visible == 1 else local_rank
    if index >= visible:
        raise UsageError(
            f"Local rank {local_rank} has no GPU of its own: {visible} are visible on this node. "
            f"Start fewer ranks a node, or use --device cpu.{instead}"
        )
    return f"{kind}:{index}"


def with_device(world: World, kind: str, gpus: tuple[int, ...] | None) -> World:
    """Assign a launched rank its device; the plan has checked that there are enough."""
    chosen = len(gpus or ()) or world.local_world_size
    return dataclasses.replace(
        world, device=rank_device(kind, world.local_rank, chosen, shared=True)
    )


def restrict_gpus(gpu_ids: tuple[int, ...] | None) -> None:
    """Restrict this process to the chosen GPUs, given as indices into CUDA_VISIBLE_DEVICES."""
    if gpu_ids is None:
        return
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else None
    chosen = [names[index].strip() if names else str(index) for index in gpu_ids]
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(chosen)
