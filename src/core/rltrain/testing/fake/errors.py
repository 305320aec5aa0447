"""Errors between ranks, which name the ranks and the lines."""

from __future__ import annotations

from rltrain.errors import RltrainError

__all__ = ["CollectiveMismatch", "Deadlock", "FaultNotReached", "PeerLost", "RankDied"]


class Deadlock(RltrainError):
    """No rank can continue: each waits for one that waits elsewhere or has returned."""


class CollectiveMismatch(RltrainError):
    """Ranks called different collectives, or passed different shapes, dtypes or sources."""


class FaultNotReached(RltrainError):
    """A planted fault never happened, so the test would prove nothing."""


class PeerLost(RuntimeError):
    """A collective cannot complete because another rank has failed. The message is like gloo's."""


class RankDied(BaseException):
    """A planted death. Not an `Exception`, so that code does not catch it, as with SIGKILL."""
