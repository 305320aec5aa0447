"""For plugin authors: the command `rltrain new`, and the kits that check the contract.

The conformance kits are classes to subclass in a test file; they need pytest. What runs N ranks in
one process is `rltrain.testing`.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltrain_devkit.kits.backend import BackendConformance
    from rltrain_devkit.kits.cluster import ClusterConformance
    from rltrain_devkit.kits.command import CommandConformance
    from rltrain_devkit.kits.gradient_sync import GradientSyncConformance
    from rltrain_devkit.kits.launcher import LauncherConformance
    from rltrain_devkit.kits.library import LibraryConformance
    from rltrain_devkit.kits.observer import ObserverConformance
    from rltrain_devkit.kits.suite import SuiteConformance
    from rltrain_devkit.kits.writer import WriterConformance

__all__ = [
    "BackendConformance",
    "ClusterConformance",
    "CommandConformance",
    "GradientSyncConformance",
    "LauncherConformance",
    "LibraryConformance",
    "ObserverConformance",
    "SuiteConformance",
    "WriterConformance",
]


def __getattr__(name: str) -> Any:
    """Import a kit when it is first used: kits do not need each other's modules."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    words = re.findall("[A-Z][a-z]+", name.removesuffix("Conformance"))
    return getattr(importlib.import_module(f"{__name__}.kits.{'_'.join(words).lower()}"), name)
