"""torch's version, the GPUs it can use, and whether NCCL's ranks can share one.

Imports torch inside of functions only.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from rltrain.config import Placement
from rltrain.types import World

OLDEST = (2, 30)
"""The first NCCL that makes a group of ranks on one GPU. Older ones end it: "Duplicate GPU
detected"."""
ALLOWS = "NCCL_MULTI_RANK_GPU_ENABLE"
MULTICAST = "NCCL_NVLS_ENABLE"

_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Device files of NVIDIA's driver, WSL's, and AMD's, whose GPUs torch also calls "cuda"."""


def count_cuda() -> int:
    """Return how many GPUs torch can use; it respects CUDA_VISIBLE_DEVICES.

    Call it in a separate process: a process that has initialized CUDA cannot fork ranks.
    """
    if not any(Path(name).exists() for name in _DRIVER_FILES):
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def about() -> dict[str, str]:
    """Return torch's version, its build and its backends, by name."""
    import torch
    import torch.distributed as dist

    backends = {"gloo": dist.is_gloo_available(), "NCCL": dist.is_nccl_available()}
    built = torch.version.cuda and f"CUDA {torch.version.cuda}"
    built = built or (torch.version.hip and f"ROCm {torch.version.hip}") or "the CPU only"
    facts = {"version": torch.__version__, "built for": built}
    available = [name for name, is_available in backends.items() if is_available]
    facts["has"] = " and ".join(available) or "no backend"
    if backends["NCCL"]:
        nccl: Any = torch.cuda.nccl
        facts["NCCL"] = ".".join(map(str, nccl.version()))
    return facts


def why_not_shared() -> str | None:
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
    build, oldest = (torch.version.cuda or "13").partition(".")[0], ".".join(map(str, OLDEST))
    return (
        f"torch has NCCL {'.'.join(map(str, loaded))}, and {oldest} is the first that can. "
        f"pip install --no-deps 'nvidia-nccl-cu{build}>={oldest}'. If this torch loads an NCCL of "
        "its own, set LD_PRELOAD to the package's libnccl.so.2."
    )


def let_share(environ: MutableMapping[str, str], world: World, placement: Placement) -> None:
    """Allow a rank to share its GPU if it does, unless the user has decided."""
    if 0 < len(placement.gpu_ids or ()) < world.local_world_size:
        environ.setdefault(ALLOWS, "1")
