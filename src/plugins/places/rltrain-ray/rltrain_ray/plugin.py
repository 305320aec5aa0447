"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rltrain.hookspecs import hookimpl
from rltrain.options import naming
from rltrain.specs import LauncherSpec


@dataclass(frozen=True)
class RayOptions:
    """Which cluster, and what the run asks of it."""

    address: str | None = field(default=None, metadata=naming("host"))
    """Address of the cluster, as for ray.init. By default RAY_ADDRESS, or the cluster that runs on
    this machine, or else a new one that ends with the run."""
    cpus_per_rank: int = 1
    """CPUs that Ray reserves for each rank."""

    def __post_init__(self) -> None:
        if self.cpus_per_rank < 0:
            raise ValueError(f"cpus_per_rank={self.cpus_per_rank} must not be negative.")


@hookimpl
def rltrain_provides() -> list[LauncherSpec]:
    """Declare the launcher."""
    return [
        LauncherSpec(
            name="ray",
            factory="rltrain_ray.launcher:RayLauncher",
            options="rltrain_ray.plugin:RayOptions",
            frameworks=("torch", "jax"),
            starts_nodes=True,
            summary="an actor on each node of a Ray cluster, which starts the node's ranks",
        )
    ]
