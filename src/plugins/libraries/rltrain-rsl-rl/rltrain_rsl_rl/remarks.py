"""What rsl_rl's files say to the scripts of Isaac Lab and mjlab, and how it is said here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["remarks"]


def remarks(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each; see `LibrarySpec.remarks`."""
    if options.get("resume"):
        yield (
            "resume, with load_run and load_checkpoint, is not read: a run goes on with --resume "
            "RUN, and a new one starts from --checkpoint PATH."
        )
    if options.get("logger") not in (None, "", "tensorboard"):
        yield (
            "logger is not read: metrics go to writers, by default console and tensorboard. Give "
            "--writer NAME for others; `rltrain plugins` lists the installed ones."
        )
