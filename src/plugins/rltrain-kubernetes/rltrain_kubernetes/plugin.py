"""What this distribution provides. Light: importing it imports only rltrain."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec, Spec


@hookimpl
def rltrain_provides() -> list[Spec]:
    """Declare the command."""
    return [
        CommandSpec(
            name="manifest",
            factory="rltrain_kubernetes.command:ManifestCommand",
            summary="writes a Kubernetes manifest of a run: TrainJob, PyTorchJob or JobSet",
        )
    ]
