"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import WriterSpec


@hookimpl
def rltrain_provides() -> list[WriterSpec]:
    """Declare the writer."""
    return [
        WriterSpec(
            name="wandb",
            factory="rltrain_wandb.writer:WandbWriter",
            options="rltrain_wandb.options:WandbOptions",
            summary="Weights & Biases; the x axis is frames over all ranks",
        )
    ]
