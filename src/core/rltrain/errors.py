"""The errors. A message names the input, what is wrong with it, and what to do next."""

from __future__ import annotations

import contextlib
import difflib
import re
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

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
    "explain_mismatch",
    "in_a_line",
    "suggest",
]

_LONGEST = 300
"""Characters of a library's message that a line repeats."""

_NOT_USERS = re.compile(
    r"<frozen|/python3\.\d+/(?!site-packages/)|"
    r"/rltrain(_\w+|/(plan|files|ranks|nodes))/\w+\.py$"
)
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


class RankFailed(RltrainError):
    """A rank failed; the message is that rank's own report, its traceback last.

    `rank` is the global rank that failed first, if known; `exit_code` the status of the run;
    `headline` what failed, in a line without the iteration; `iteration` how many were done.
    """

    # Only the message is needed to make one: pickle carries the rest, as for any exception.
    def __init__(
        self,
        message: str,
        *,
        rank: int | None = None,
        exit_code: int = 1,
        headline: str = "",
        iteration: int | None = None,
        may_restart: bool = True,
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.exit_code = exit_code
        self.headline = headline or message.partition("\n")[0]
        self.iteration = iteration
        self.may_restart = may_restart


class EndedBySignal(RankFailed):
    """A signal has ended the run at once: it did not train yet, or it was asked twice."""


class PeerLost(RankFailed):
    """A rank failed because another one had failed or gone: the cause is that one's."""


class StopTraining(Exception):
    """No error: an adapter raises and catches it to leave a library's loop that cannot stop."""


class PluginError(RltrainError):
    """A plugin breaks the hook contract: a fault of its author, not of the user."""


class DivergenceError(RltrainError):
    """Ranks hold different values where they must be equal."""


class NonFiniteError(RltrainError):
    """A rank has NaN or infinity where training needs numbers; see `--on-nonfinite`."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest of `known`, else "". Case is ignored.

    A version comes before a similar word: `Hopper` finds `Hopper-v5`. So does the name in a module.

    Examples:
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
    """Return an error's class and text in one line; if `placed`, with a place in a user's code."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{x.filename}:{x.lineno}" for x in frames if not _NOT_USERS.search(x.filename)]
    own = [place for place in places if "site-packages" not in place] or places
    where = f" ({own[-1]})" if own and placed else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"


@contextlib.contextmanager
def explain_mismatch(checkpoint: Path | None) -> Iterator[None]:
    """Turn what is raised while a checkpoint's content is loaded into a `UsageError`."""
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
    more = f" And {len(found) - 1} more." if len(found) > 1 else ""
    return f"{type(error).__name__}: {' '.join([title, *found[:1]])}"[:_LONGEST] + more
