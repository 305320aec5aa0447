"""For plugin authors: ranks without processes, and what a rank's session is made of.

`FakeWorld` runs N ranks in one process. Kits that check the contract are `rltrain_devkit`.
"""

from __future__ import annotations

from rltrain.plugins.manager import RunPlugins
from rltrain.run.session import RankSession
from rltrain.run.worker import make_session
from rltrain.testing.config import make_config
from rltrain.testing.fake.collectives import Collective
from rltrain.testing.fake.errors import (
    CollectiveMismatch,
    Deadlock,
    FaultNotReached,
    PeerLost,
    RankDied,
)
from rltrain.testing.fake.faults import Fault
from rltrain.testing.fake.group import FakeGroup
from rltrain.testing.fake.training import RankRun, current, differing, leaves
from rltrain.testing.fake.world import FakeWorld

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
    "RankSession",
    "RunPlugins",
    "current",
    "differing",
    "leaves",
    "make_config",
    "make_session",
]
