"""Runs that their own limits have ended: iterations, a target, or a limit of the library."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rltrain.errors import UsageError
from rltrain.files.dotted import get_dotted
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.run import Run

if TYPE_CHECKING:
    from rltrain.config import RunConfig

_TARGET = "--target-return"


def limit_now(option: str, config: RunConfig) -> str:
    """Return a limit of a run as a user types it: an option and its value."""
    if option == _TARGET:
        target = config.target_return
        return option if target is None else f"{option} {target:g}"
    return f"{option}={get_dotted(config.agent, option.removeprefix('agent.'), None)}"


def over_by(checkpoint: Checkpoint, config: RunConfig, iterations: int | None) -> str:
    """Return the limit (option and value) that has ended a checkpoint's run and still holds.

    "" if there is something left to do: as from a checkpoint that is not its run's newest.
    """
    state = checkpoint.state
    # From a checkpoint of another algorithm, such as a teacher's, iterations start at 0.
    if state is None or state["circumstances"].get("algorithm") != config.algorithm:
        return ""
    if iterations and state["iteration"] >= iterations:
        return f"--max-iterations {iterations}"
    run = Run(checkpoint.path.parent.parent, trusted=checkpoint.trusted, warn=lambda text: None)
    if not run.ends_with(checkpoint):
        return ""
    try:
        ended = run.metrics.ended
    except UsageError:
        return ""  # It has no metrics, or they are damaged.
    if ended is None or not (option := re.match(rf"{_TARGET}|agent\.[^=]+", ended.limit)):
        return ""
    now = limit_now(option[0], config)
    return now if now == ended.limit else ""
