"""What goes wrong between ranks, as errors that name the ranks and the lines."""

from __future__ import annotations

from rltrain.errors import RltrainError

__all__ = ["CollectiveMismatch", "Deadlock", "FaultNotReached", "PeerLost", "RankDied"]


class Deadlock(RltrainError):
    """No rank can go on: each waits for one that waits elsewhere, or has returned."""


class CollectiveMismatch(RltrainError):
    """Ranks met with different collectives, shapes, dtypes or sources."""


class FaultNotReached(RltrainError):
    """A planted fault never came to pass, so that the test would have shown nothing."""


class PeerLost(RuntimeError):
    """A collective cannot complete because another rank has failed, in gloo's words."""


class RankDied(BaseException):
    """A planted death. Not an `Exception`: nothing can catch it, as nothing catches a SIGKILL."""
