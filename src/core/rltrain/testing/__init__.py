"""For plugin authors: ranks without processes, and kits that check the contract.

`FakeWorld` runs N ranks in one process. The conformance kits are classes to subclass in a test
file; they need pytest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
from rltrain.testing.fake.training import RankRun, differing
from rltrain.testing.fake.world import FakeWorld

if TYPE_CHECKING:
    from rltrain.testing.kits.backend import BackendConformance
    from rltrain.testing.kits.gradient_sync import GradientSyncConformance
    from rltrain.testing.kits.library import LibraryConformance
    from rltrain.testing.kits.suite import SuiteConformance

__all__ = [
    "BackendConformance",
    "Collective",
    "CollectiveMismatch",
    "Deadlock",
    "FakeGroup",
    "FakeWorld",
    "Fault",
    "FaultNotReached",
    "GradientSyncConformance",
    "LibraryConformance",
    "PeerLost",
    "RankDied",
    "RankRun",
    "SuiteConformance",
    "differing",
    "make_config",
]

_KITS = {
    "BackendConformance": "backend",
    "GradientSyncConformance": "gradient_sync",
    "LibraryConformance": "library",
    "SuiteConformance": "suite",
}


def __getattr__(name: str) -> Any:
    """Import a kit when it is first used: kits do not need each other's modules."""
    if name not in _KITS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.kits.{_KITS[name]}"), name)
