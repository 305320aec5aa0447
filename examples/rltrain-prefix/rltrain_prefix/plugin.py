"""What this plugin provides. Light: importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain import hookimpl
from rltrain.specs import LauncherSpec, Spec

__all__ = ["rltrain_provides"]


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the launcher."""
    return [
        LauncherSpec(
            name="prefix",
            factory="rltrain_prefix.launcher:PrefixLauncher",
            options="rltrain_prefix.options:PrefixOptions",
            frameworks=("torch", "jax"),
            summary="each rank under a tool: numactl, nsys, perf, gdb",
            lacks=("nnodes", "max_restarts"),
        )
    ]
