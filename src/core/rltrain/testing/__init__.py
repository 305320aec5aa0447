"""For authors of plugins: ranks without processes, and kits that check the contract.

`FakeWorld` runs N ranks in one process.
"""

from __future__ import annotations

from rltrain.testing.collectives import Collective
from rltrain.testing.errors import (
    CollectiveMismatch,
    Deadlock,
    FaultNotReached,
    PeerLost,
    RankDied,
)
from rltrain.testing.fake_group import FakeGroup
from rltrain.testing.fake_world import FakeWorld
from rltrain.testing.faults import Fault
from rltrain.testing.training import RankRun

__all__ = [
    "Collective",
    "CollectiveMismatch",
    "Deadlock",
    "FakeGroup",
    "FakeWorld",
    "Fault",
    "FaultNotReached",
    "PeerLost",
    "RankDied",
    "RankRun",
]
