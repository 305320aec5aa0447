"""What this plugin provides. Light: importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain import hookimpl
from rltrain.config import RunConfig
from rltrain.specs import ObserverSpec, Refusal, Spec
from rltrain.types import TaskInfo

__all__ = ["rltrain_provides"]


def _not_torch(config: RunConfig, task: TaskInfo) -> bool:
    return config.framework != "torch"


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the observer."""
    return [
        ObserverSpec(
            name="gradient_norms",
            factory="rltrain_gradient_norms.observer:GradientNorms",
            summary="writes the norm of each rank's gradients, and that of their average",
            refuses=(
                Refusal(
                    "other frameworks",
                    _not_torch,
                    "gradient_norms reads gradients of torch.",
                    "leave it out.",
                ),
            ),
        )
    ]
