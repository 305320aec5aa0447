"""Differences between the supported versions of torch."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["destroy_default_group", "last_of", "optional"]


def destroy_default_group() -> None:
    """Destroy torch's default group, without the deadlock of gloo in torch 2.7.

    The group's destructor waits for gloo's threads. Python calls it while holding the GIL, and a
    thread that frees the last collective's tensor waits for the GIL: both wait forever (seen in
    every tenth group with 2.7.0, in none with 2.9.1). The backend's own Python object releases the
    GIL before it is destroyed, so it must be the last one to go.
    """
    import torch.distributed as dist

    group = dist.group.WORLD
    assert group is not None, "the caller has checked that the group exists"
    last = last_of(group)
    dist.destroy_process_group()
    del group, last


def last_of(group: Any) -> Any:
    """Return the object that must be freed after a group, or None; see `destroy_default_group`."""
    import torch
    import torch.distributed as dist

    return group._get_backend(torch.device("cpu")) if dist.get_backend(group) == "gloo" else None


def optional(**options: Any) -> dict[str, Any]:
    """Return those of these options of `LaunchConfig` that this version of torch has.

    - `shutdown_timeout`, from 2.12 on, kills ranks that do not exit in time. Before, the time is 30
      seconds. It affects only a rank that ignores SIGTERM; see the worker of the core.
    - `signals_to_handle`, from 2.9 on. Before, SIGHUP ends a run that nohup has started.
    """
    from torch.distributed.launcher.api import LaunchConfig

    known = {field.name for field in dataclasses.fields(LaunchConfig)}
    return {name: value for name, value in options.items() if name in known}
