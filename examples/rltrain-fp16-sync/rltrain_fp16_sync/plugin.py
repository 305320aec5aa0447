"""What this plugin provides. Light: it imports no torch."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain import hookimpl
from rltrain.specs import GradientSyncSpec, Spec

__all__ = ["rltrain_provides"]


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the gradient sync."""
    return [
        GradientSyncSpec(
            name="fp16",
            factory="rltrain_fp16_sync.sync:HalfGradientSync",
            frameworks=("torch",),
            summary="half the bytes: float16 with error feedback",
        )
    ]
