"""How a rank, or a run, has ended."""

from __future__ import annotations

from rltrain.files.errors import RltrainError


class RankFailed(RltrainError):
    """A rank failed; the message is that rank's own report, its traceback last.

    Attributes:
        rank: the global rank that failed first, or None if it is not known.
        exit_code: the exit status of the run.
        headline: what failed, in a line without the iteration.
        iteration: how many iterations were done, if known.
        may_restart: see `RltrainError`.
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
