"""For authors of plugins: ranks without processes, and kits that check the contract.

`FakeWorld` runs N ranks in one process. The conformance kits are classes to subclass in a test
file; they need pytest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from rltrain.testing.backend_kit import BackendConformance
    from rltrain.testing.gradient_sync_kit import GradientSyncConformance
    from rltrain.testing.library_kit import LibraryConformance
    from rltrain.testing.suite_kit import SuiteConformance

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
]

_KITS = {
    "BackendConformance": "backend_kit",
    "GradientSyncConformance": "gradient_sync_kit",
    "LibraryConformance": "library_kit",
    "SuiteConformance": "suite_kit",
}


def __getattr__(name: str) -> Any:
    """Import a kit when it is first asked for: none needs the others' modules."""
    if name not in _KITS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_KITS[name]}"), name)
