"""Differences between the supported versions of torch."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # The launcher uses this file, and starts without torch.
    from torch.distributed import ProcessGroup


def destroy_without_gil(group: ProcessGroup) -> None:
    """Have a group destroyed while Python's GIL is free: torch 2.7 may hang otherwise.

    The destructor of a gloo group waits for gloo's threads. Python calls it while holding the GIL,
    and a thread that frees the last collective's tensor waits for the GIL: both wait forever (seen
    in every tenth group with 2.7.0, in none with 2.9.1). The backend's own Python object releases
    the GIL before it is destroyed. So that it goes last, it is kept until the group's Python
    object is gone. Then it does not matter who destroys the group.

    Args:
        group: of any backend; only gloo's are concerned.
    """
    import torch
    import torch.distributed as dist

    if dist.get_backend(group) == "gloo":
        backend = group._get_backend(torch.device("cpu"))
        weakref.finalize(group, _let_go, backend).atexit = False


def _let_go(backend: object) -> None:
    """Do nothing: the caller has held the last reference to the backend."""
