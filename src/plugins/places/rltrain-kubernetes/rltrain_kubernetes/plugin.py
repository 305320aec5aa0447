"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec, Spec
from rltrain_kubernetes.clusters import CLUSTERS


@hookimpl
def rltrain_provides() -> list[Spec]:
    """Declare the command, and the clusters in whose pods a run finds its place."""
    return [
        CommandSpec(
            name="manifest",
            factory="rltrain_kubernetes.command:ManifestCommand",
            summary="writes a Kubernetes manifest of a run: TrainJob, PyTorchJob or JobSet",
        ),
        *CLUSTERS,
    ]
