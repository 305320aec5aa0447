"""The errors that every error of rltrain is one of, and words for them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["RltrainError", "UsageError", "in_a_line", "suggest"]


class RltrainError(Exception):
    """The base of every error that rltrain raises on purpose."""

    exit_code = 1
    """The exit status of a command that ends with this error."""
    may_restart = True
    """Whether ranks that start again, as --max-restarts asks, may get further."""


class UsageError(RltrainError):
    """What the user asked for is wrong or cannot work; shown without a traceback."""

    exit_code = 2
    may_restart = False


def suggest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest of `known`, else "".

    Case is ignored, so that `cartpole-v1` finds `CartPole-v1`. A version comes before a similar
    word: `Hopper` finds `Hopper-v5`, and not `HopperHop`. So does the name with its module.

    Example:
        >>> suggest("rl_game", ["rl_games", "skrl"])
        " Did you mean 'rl_games'?"
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    wanted = name.lower()
    close = sorted((each for each in by_lower if each.startswith(f"{wanted}-v")), reverse=True)
    close = close or [each for each in by_lower if each.endswith(f":{wanted}")]
    close = close or difflib.get_close_matches(wanted, by_lower, n=1, cutoff=0.6)
    if not close and len(wanted) > 2:
        close = sorted((each for each in by_lower if each.startswith(wanted)), key=len)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


def in_a_line(error: BaseException) -> str:
    """Return an error's class and text in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
