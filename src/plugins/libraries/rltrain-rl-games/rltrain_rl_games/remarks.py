"""What rl_games' files say to other programs or versions, and how it is said here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltrain.options import get_dotted

__all__ = ["remarks"]


def remarks(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each; see `LibrarySpec.remarks`."""
    if get_dotted(options, "params.load_checkpoint", None):
        yield (
            "params.load_checkpoint, with load_path, is not read: a new run starts from "
            "--checkpoint PATH, and a run goes on with --resume RUN."
        )
    old, new = (get_dotted(options, f"params.config.{x}", None) for x in ("seq_len", "seq_length"))
    if get_dotted(options, "params.network.rnn", None) and old is not None and new is None:
        yield (
            "params.config.seq_len is not read: rl_games calls it seq_length today, and without "
            "that it trains with sequences of its default length."
        )
