"""What only some of the supported versions of torch have, each in one place, with the reason."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["destroy_default_group", "shutdown_timeout"]


def destroy_default_group() -> None:
    """Destroy torch's default group, without the hang of gloo in torch 2.7.

    The group's destructor waits for gloo's threads. Python calls it with its global lock held,
    and a thread that frees the last collective's tensor waits for that lock: both wait forever
    (seen in every tenth group with 2.7.0, in none with 2.9.1). The backend's own Python object
    releases the lock before it is destroyed, so it has to be the one that goes last.
    """
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD
    assert group is not None, "the caller has checked that there is one"
    gloo = group._get_backend(torch.device("cpu")) if dist.get_backend() == "gloo" else None
    dist.destroy_process_group()
    del group, gloo


def shutdown_timeout(seconds: int) -> dict[str, Any]:
    """Return the option of `LaunchConfig` by which ranks that do not end are killed sooner.

    torch has it from 2.12; before, ranks have 30 seconds. Only one that ignores SIGTERM notices:
    see `rltrain.run.worker`.
    """
    from torch.distributed.launcher.api import LaunchConfig

    known = {field.name for field in dataclasses.fields(LaunchConfig)}
    return {"shutdown_timeout": seconds} if "shutdown_timeout" in known else {}
