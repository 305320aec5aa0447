"""Runs that their own limits have ended: iterations, a target, or a limit of the library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rltrain.errors import UsageError
from rltrain.storage.checkpoints import read_state
from rltrain.storage.finding import newest_of_run
from rltrain.storage.metrics_file import read_metrics
from rltrain_files.dotted import get_dotted

if TYPE_CHECKING:
    from rltrain.config import RunConfig

__all__ = ["limit_now", "over_by"]

_TARGET = "--target-return"


def limit_now(option: str, config: RunConfig) -> str:
    """Return a limit of a run as a user types it: an option and its value.

    Args:
        option: `--target-return`, or `agent.` and a key in `config.agent`.
        config: the run.
    """
    if option == _TARGET:
        target = config.target_return
        return option if target is None else f"{option} {target:g}"
    return f"{option}={get_dotted(config.agent, option.removeprefix('agent.'), None)}"


def over_by(checkpoint: str, config: RunConfig, iterations: int | None) -> str:
    """Return the limit that has ended the run of a checkpoint and that still holds.

    Args:
        checkpoint: the file. Only with its run's newest one that run is over: from an older one
            there are iterations left.
        config: the run that is to go on from it.
        iterations: at which it ends, if known.

    Returns:
        The option and its value; "" if there is something left to do.
    """
    path = Path(checkpoint)
    state = read_state(path, config.trust_checkpoint)
    # From a checkpoint of another algorithm, such as a teacher's, iterations start at 0.
    if state is None or state["circumstances"].get("algorithm") != config.algorithm:
        return ""
    if iterations and state["iteration"] >= iterations:
        return f"--max-iterations {iterations}"
    run = path.parent.parent
    newest = newest_of_run(run, lambda text: None, trusted=True)
    if newest is None or newest[0] != path:
        return ""
    try:
        ended = read_metrics(run).ended
    except UsageError:
        return ""  # It has no metrics, or they are damaged.
    if ended is None or not (option := re.match(rf"{_TARGET}|agent\.[^=]+", ended.limit)):
        return ""
    now = limit_now(option[0], config)
    return now if now == ended.limit else ""
