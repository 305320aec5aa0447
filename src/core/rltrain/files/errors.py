"""The errors that every error of rltrain is one of, and words for them."""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Iterable

_NOT_USERS = re.compile(r"<frozen|/python3\.\d+/(?!site-packages/)|/rltrain(_\w+|/plan)/\w+\.py$")
"""Files of Python's own library and of this project, in which a user's code is called."""


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


def in_a_line(error: BaseException, placed: bool = False) -> str:
    """Return an error's class and text in one line.

    Args:
        error: the error.
        placed: whether to add in parentheses where the user's own code has raised it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{x.filename}:{x.lineno}" for x in frames if not _NOT_USERS.search(x.filename)]
    own = [place for place in places if "site-packages" not in place] or places
    where = f" ({own[-1]})" if own and placed else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
