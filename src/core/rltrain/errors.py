"""The errors. A message names the input, what is wrong with it, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "DivergenceError",
    "PeerLost",
    "PluginError",
    "RankFailed",
    "RltrainError",
    "StopTraining",
    "UsageError",
    "suggest",
]


class RltrainError(Exception):
    """The base of every error that rltrain raises on purpose."""

    exit_code = 1
    """The exit status of a command that ends with this error."""


class UsageError(RltrainError):
    """What the user asked for is wrong or cannot work; shown without a traceback."""

    exit_code = 2


class StopTraining(Exception):
    """No error: how an adapter leaves a library's loop that has no other way out.

    An adapter raises it when `session.should_stop` is set, and catches it itself.
    """


class PluginError(RltrainError):
    """A plugin breaks the hook contract: a fault of its author, not of the user."""


class DivergenceError(RltrainError):
    """Ranks hold different values where they must be equal."""


class RankFailed(RltrainError):
    """A rank failed; the message is that rank's own report, its traceback last.

    Attributes:
        rank: the global rank that failed first, or None if it is not known.
        exit_code: the exit status of the run.
    """

    # Only the message is needed to make one: pickle carries the rest, as for any exception.
    def __init__(self, message: str, *, rank: int | None = None, exit_code: int = 1) -> None:
        super().__init__(message)
        self.rank = rank
        self.exit_code = exit_code


class PeerLost(RankFailed):
    """A rank failed because another one had gone: the cause is that one's, on another node."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest of `known`, else "".

    Case is ignored, so that `cartpole-v1` finds `CartPole-v1`.

    Example:
        >>> suggest("rl_game", ["rl_games", "skrl"])
        " Did you mean 'rl_games'?"
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""
