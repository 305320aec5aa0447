"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import LauncherSpec


@hookimpl
def rltrain_provides() -> list[LauncherSpec]:
    """Declare the launcher."""
    return [
        LauncherSpec(
            name="slurm",
            factory="rltrain_slurm.launcher:SlurmLauncher",
            options="rltrain_slurm.options:SlurmOptions",
            frameworks=("torch", "jax"),
            starts_nodes=True,
            summary="submits the run as a job; queued again, it continues from its checkpoint",
        )
    ]
