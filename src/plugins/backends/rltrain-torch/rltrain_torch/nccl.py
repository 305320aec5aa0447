"""NCCL with several ranks on one GPU: which versions can, and what they need for it.

Importing this module does not import torch, and nothing here touches CUDA.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import MutableMapping
from pathlib import Path

from rltrain.config import Placement
from rltrain.types import World

OLDEST = (2, 30)
"""The first NCCL that makes a group of ranks on one GPU. Older ones end it: "Duplicate GPU
detected"."""
ALLOWS = "NCCL_MULTI_RANK_GPU_ENABLE"
MULTICAST = "NCCL_NVLS_ENABLE"


def cannot_share() -> str | None:
    """Return why NCCL cannot have several ranks on one GPU here, or None if it can.

    The variables are those of NCCL's user guide; that it ends with NVLink SHARP switched on was
    reported in NVIDIA/nccl#1716.
    """
    if os.environ.get(ALLOWS) == "0":
        return f"the environment has {ALLOWS}=0, which forbids it. Unset it."
    if os.environ.get(MULTICAST) == "1":
        return f"the environment has {MULTICAST}=1, which NCCL refuses then. Unset it."
    import torch

    loaded: tuple[int, ...] = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
    if loaded[:2] >= OLDEST:
        return None
    build = (torch.version.cuda or "13").partition(".")[0]
    return f"torch has NCCL {_dotted(loaded)}, and {_dotted(OLDEST)} is the first that can. " + (
        _how_to_load(f"nvidia-nccl-cu{build}")
    )


def _how_to_load(package: str) -> str:
    """Return how torch gets a new NCCL: the package's, which it may not have loaded."""
    try:
        there = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        there = None
    if there is not None and tuple(map(int, there.version.split(".")[:2])) >= OLDEST:
        library = Path(str(there.locate_file("nvidia/nccl/lib/libnccl.so.2")))
        return f"{package} {there.version} is installed; torch loads it with LD_PRELOAD={library}."
    return (
        f"pip install --no-deps '{package}>={_dotted(OLDEST)}'. If this torch has an NCCL of its "
        "own and does not load that one, the same command says what else it needs."
    )


def shares(world: World, placement: Placement) -> bool:
    """Return whether a rank shares its GPU with another one of its node."""
    return 0 < len(placement.gpu_ids or ()) < world.local_world_size


def let_share(environ: MutableMapping[str, str]) -> None:
    """Allow a process to share its GPU with other ranks, unless the user has decided."""
    environ.setdefault(ALLOWS, "1")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
