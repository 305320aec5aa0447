"""What rank 0 decides for all ranks: seed, run folder, checkpoint."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import PeerLost, UsageError
from rltrain.launch import say
from rltrain.seeding import draw_seed
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.resume import over_by
from rltrain.storage.run import find_checkpoint
from rltrain.storage.run_folder import RunFolder, create_run_folder
from rltrain.types import ProcessGroup

if TYPE_CHECKING:
    from rltrain.config import RunConfig


@dataclass(frozen=True)
class Agreement:
    """Rank 0's decisions, equal on all ranks."""

    config: RunConfig
    run_folder: RunFolder
    """Of a run that is over, that of its checkpoint, in which nothing is written."""
    checkpoint: Checkpoint | None
    """What the run starts from, as far as this rank has read it."""
    over: str = ""
    """The limit that has ended the run before; "" if there is something left to do."""


def agree(
    group: ProcessGroup,
    config: RunConfig,
    iterations: int | None,
    found: Checkpoint | None = None,
) -> Agreement:
    """Let rank 0 decide, and apply its decisions on every rank. Collective.

    `found` is the checkpoint, if this process has found it already.
    """
    sent: tuple[str, Any] = "", None
    failed: Exception | None = None
    read: Checkpoint | None = None
    if group.rank == 0:
        try:
            # Ranks that a launcher has started again get the options of the first start.
            read = found or find_checkpoint(config, say)
            sent = "decided", _decide(config, read, iterations)
        except Exception as error:
            failed, reason = error, str(error) or type(error).__name__
            sent = ("refused" if isinstance(error, UsageError) else "failed"), reason
    what, decided = group.broadcast_object(sent)
    if failed is not None:
        raise failed
    if what == "refused":
        raise UsageError(decided)
    if what == "failed":
        raise PeerLost(f"Rank 0 failed: {decided}")
    seed, path, checkpoint, over = decided
    if checkpoint is not None and read is None:
        read = Checkpoint(checkpoint, config.trust)
    config = dataclasses.replace(config, seed=seed, checkpoint=checkpoint)
    return Agreement(config, RunFolder(Path(path)), read, over)


def _decide(
    config: RunConfig, checkpoint: Checkpoint | None, iterations: int | None
) -> tuple[int, str, str | None, str]:
    seed, path = _seed(config, checkpoint), str(checkpoint.path) if checkpoint else None
    if config.auto_resume and checkpoint and (over := over_by(checkpoint, config, iterations)):
        return seed, str(checkpoint.path.parent.parent), path, over
    if config.run_dir is not None:
        return seed, config.run_dir, path, ""
    folder = create_run_folder(config.log_root, config.library, config.task, config.run_name)
    return seed, str(folder.path), path, ""


def _seed(config: RunConfig, checkpoint: Checkpoint | None) -> int:
    if config.seed != -1:
        return config.seed
    # A resumed run keeps the seed that it sampled.
    state = checkpoint.state if checkpoint is not None else None
    before = (state or {}).get("circumstances", {}).get("seed")
    return before if isinstance(before, int) else draw_seed()
