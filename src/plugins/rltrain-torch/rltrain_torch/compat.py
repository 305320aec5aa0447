"""Differences between the supported versions of torch."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["destroy_default_group", "shutdown_timeout"]


def destroy_default_group() -> None:
    """Destroy torch's default group, without the deadlock of gloo in torch 2.7.

    The group's destructor waits for gloo's threads. Python calls it while holding the GIL, and a
    thread that frees the last collective's tensor waits for the GIL: both wait forever (seen in
    every tenth group with 2.7.0, in none with 2.9.1). The backend's own Python object releases the
    GIL before it is destroyed, so it must be the last one to go.
    """
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD
    assert group is not None, "the caller has checked that the group exists"
    gloo = group._get_backend(torch.device("cpu")) if dist.get_backend() == "gloo" else None
    dist.destroy_process_group()
    del group, gloo


def shutdown_timeout(seconds: int) -> dict[str, Any]:
    """Return the option of `LaunchConfig` that kills ranks which do not exit in time.

    torch has it from 2.12 on; before, the time is 30 seconds. It affects only a rank that ignores
    SIGTERM; see the worker of the core.
    """
    from torch.distributed.launcher.api import LaunchConfig

    known = {field.name for field in dataclasses.fields(LaunchConfig)}
    return {"shutdown_timeout": seconds} if "shutdown_timeout" in known else {}
