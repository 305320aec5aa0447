"""For plugin authors: ranks without processes, and what a rank's session is made of.

`FakeWorld` runs N ranks in one process. Kits that check the contract are `rltrain_devkit`.
"""

from __future__ import annotations

from typing import Any

from rltrain.config import RunConfig
from rltrain.config.options import DEFAULT_TASK
from rltrain.metrics.divergence import leaves
from rltrain.plugins.manager import RunPlugins
from rltrain.run.session import RankSession
from rltrain.run.worker import make_session
from rltrain.testing.fake.group import Collective, FakeGroup
from rltrain.testing.fake.run import (
    CollectiveMismatch,
    Deadlock,
    Fault,
    FaultNotReached,
    PeerLost,
    RankDied,
)
from rltrain.testing.fake.training import RankRun, current, differing
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


def make_config(**fields: Any) -> RunConfig:
    """Return a resolved run without planning it: nothing is looked up or checked.

    Args:
        **fields: fields that matter to the test; the others describe a small run on the CPU.

    Example:
        ```python
        config = make_config(library="mine", agent={"gamma": 0.9}, num_envs=4)
        assert REFUSAL.applies(config, task)
        ```
    """
    defaults: dict[str, Any] = {
        "backend": "gloo",
        "library": "rl_games",
        "algorithm": "ppo",
        "task": DEFAULT_TASK,
        "suite": "gymnasium",
        "grad_sync": "flat",
        "num_envs": 8,
    }
    return RunConfig(**{**defaults, **fields})
