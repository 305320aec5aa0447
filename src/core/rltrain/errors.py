"""The errors. A message names the input, what is wrong with it, and what to do next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rltrain.files.errors import RltrainError, UsageError, in_a_line, suggest
from rltrain.ranks.errors import EndedBySignal, PeerLost, RankFailed

__all__ = [
    "DivergenceError",
    "EndedBySignal",
    "NonFiniteError",
    "PeerLost",
    "PluginError",
    "RankFailed",
    "RltrainError",
    "StopTraining",
    "UsageError",
    "fitting",
    "in_a_line",
    "suggest",
]

for _error in (RltrainError, UsageError, RankFailed, EndedBySignal, PeerLost):
    _error.__module__ = __name__  # Tracebacks name what users import.

_LONGEST = 300
"""Characters of a library's message that a line repeats."""


class StopTraining(Exception):
    """No error: how an adapter leaves a library's loop that has no other way out.

    An adapter raises it when `session.should_stop` is set, and catches it itself.
    """


class PluginError(RltrainError):
    """A plugin breaks the hook contract: a fault of its author, not of the user."""


class DivergenceError(RltrainError):
    """Ranks hold different values where they must be equal."""


class NonFiniteError(RltrainError):
    """A rank has NaN or infinity where training needs numbers; see `--on-nonfinite`.

    Attributes:
        may_restart: whether the run goes on from its newest checkpoint, if it may be restarted.
    """

    # As for `RankFailed`, pickle carries the rest.
    def __init__(self, message: str, *, may_restart: bool = False) -> None:
        super().__init__(message)
        self.may_restart = may_restart


@contextlib.contextmanager
def fitting(checkpoint: Path | None) -> Iterator[None]:
    """Turn what is raised while a checkpoint's content is taken over into a `UsageError`.

    Args:
        checkpoint: the file. A `UsageError` raised inside says the rest of the message.
    """
    try:
        yield
    except UsageError as error:
        raise UsageError(f"--checkpoint {checkpoint}: {error}") from error
    except Exception as error:
        raise UsageError(
            f"--checkpoint {checkpoint}: does not fit this run ({_first_of(error)}). Give the task "
            "and the agent options that it was trained with."
        ) from error


def _first_of(error: Exception) -> str:
    """Return the first of an error's findings in a line: torch names each part that differs."""
    title, *found = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    text = f"{type(error).__name__}: {' '.join([title, *found[:1]])}"
    more = f" And {len(found) - 1} more." if len(found) > 1 else ""
    return (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...") + more
