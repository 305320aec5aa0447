"""For writers that send a run to a tracker: a server that may be slow, be gone, or refuse.

`TrackerWriter` keeps it out of training's way. The modules in this package are internal.
"""

from rltrain_tracking.tracker import (
    CHECKPOINTS,
    Refused,
    Row,
    Tracker,
    check_options,
    checkpoint_files,
    config_of,
    metrics_of,
    outcome,
    remember,
    remembered,
)
from rltrain_tracking.writer import TrackerWriter

__all__ = [
    "CHECKPOINTS",
    "Refused",
    "Row",
    "Tracker",
    "TrackerWriter",
    "check_options",
    "checkpoint_files",
    "config_of",
    "metrics_of",
    "outcome",
    "remember",
    "remembered",
]
