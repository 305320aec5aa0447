"""The Weights & Biases writer."""

from __future__ import annotations

from rltrain_tracking import TrackerWriter
from rltrain_wandb.options import WandbOptions
from rltrain_wandb.tracker import WandbTracker

MARGIN = 5.0
"""Seconds in which wandb's own client ends, once it has given up its uploads."""


class WandbWriter(TrackerWriter):
    """Sends a run to Weights & Biases."""

    def __init__(self, options: WandbOptions) -> None:
        super().__init__(
            "wandb",
            WandbTracker(options),
            checkpoints=options.checkpoints,
            finish_timeout=options.finish_timeout + MARGIN,
        )
