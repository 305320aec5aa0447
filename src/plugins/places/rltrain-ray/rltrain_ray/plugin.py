"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import LauncherSpec


@hookimpl
def rltrain_provides() -> list[LauncherSpec]:
    """Declare the launcher."""
    return [
        LauncherSpec(
            name="ray",
            factory="rltrain_ray.launcher:RayLauncher",
            options="rltrain_ray.options:RayOptions",
            frameworks=("torch", "jax"),
            starts_nodes=True,
            summary="an actor on each node of a Ray cluster, which starts the node's ranks",
        )
    ]
