"""What rank 0 decides for all ranks: seed, run folder, checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import PeerLost, UsageError
from rltrain.launch import say
from rltrain.seeding import draw_seed
from rltrain.storage.checkpoints import read_state
from rltrain.storage.finding import latest_of_name
from rltrain.storage.fitting import is_count
from rltrain.storage.limits import over_by
from rltrain.storage.run_folder import RunFolder, create_run_folder
from rltrain.types import ProcessGroup

if TYPE_CHECKING:
    from rltrain.config import RunConfig

__all__ = ["Agreement", "agree"]


@dataclass(frozen=True)
class Agreement:
    """Rank 0's decisions, equal on all ranks."""

    config: RunConfig
    run_folder: RunFolder
    """Of a run that is over, that of its checkpoint, in which nothing is written."""
    over: str = ""
    """The limit that has ended the run before; "" if there is something left to do."""


def agree(group: ProcessGroup, config: RunConfig, iterations: int | None) -> Agreement:
    """Let rank 0 decide, and apply its decisions on every rank. Collective.

    Args:
        group: the process group.
        config: the run.
        iterations: at which it ends, if known.

    Raises:
        UsageError: the run folder cannot be created. Every rank raises it: otherwise, the other
            ranks would wait for rank 0 forever.
        PeerLost: rank 0 failed otherwise; it raises its own error.
    """
    sent: dict[str, Any] = {}
    failed: Exception | None = None
    if group.rank == 0:
        try:
            sent["decided"] = _decide(config, iterations)
        except Exception as error:
            failed = error
            kind = "refused" if isinstance(error, UsageError) else "failed"
            sent[kind] = str(error) or type(error).__name__
    sent = group.broadcast_object(sent)
    if failed is not None:
        raise failed
    if "refused" in sent:
        raise UsageError(sent["refused"])
    if "failed" in sent:
        raise PeerLost(f"Rank 0 failed: {sent['failed']}")
    seed, path, checkpoint, over = sent["decided"]
    config = dataclasses.replace(config, seed=seed, checkpoint=checkpoint)
    return Agreement(config, RunFolder(Path(path)), over)


def _decide(config: RunConfig, iterations: int | None) -> tuple[int, str, str | None, str]:
    if config.auto_resume:
        # Ranks that a launcher has started again get the options of the first start.
        checkpoint = latest_of_name(config, say) or config.checkpoint
        config = dataclasses.replace(config, checkpoint=checkpoint)
        if checkpoint and (over := over_by(checkpoint, config, iterations)):
            return _seed(config), str(Path(checkpoint).parent.parent), checkpoint, over
    if config.run_dir is not None:
        return _seed(config), config.run_dir, config.checkpoint, ""
    folder = create_run_folder(config.log_root, config.library, config.task, config.run_name)
    return _seed(config), str(folder.path), config.checkpoint, ""


def _seed(config: RunConfig) -> int:
    if config.seed != -1:
        return config.seed
    # A resumed run keeps the seed that it drew.
    before = (_state_before(config) or {}).get("circumstances", {}).get("seed")
    return before if is_count(before) else draw_seed()


def _state_before(config: RunConfig) -> Mapping[str, Any] | None:
    if config.checkpoint is None:
        return None
    return read_state(Path(config.checkpoint), config.trust_checkpoint)
