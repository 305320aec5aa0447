"""What was trained: found, planned, and loaded. For commands.

    trained = find_trained("latest", "best", {"num_envs": 10})
    plan = plan_policy(trained)

A plan's ranks do any work with it by `rltrain.work.on_ranks`, each in an `open_session`.
"""

from __future__ import annotations

from rltrain.policies.session import PolicySession, open_session
from rltrain.policies.trained import (
    Trained,
    find_trained,
    plan_environments,
    plan_policy,
    with_drawing,
)

__all__ = [
    "PolicySession",
    "Trained",
    "find_trained",
    "open_session",
    "plan_environments",
    "plan_policy",
    "with_drawing",
]
