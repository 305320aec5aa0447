"""What was trained, put to use: found, planned, loaded, played, evaluated. For commands.

    trained = find_trained("latest", "best", {"num_envs": 10})
    (result,) = evaluate(trained, episodes=100)
    print(result.summaries["return"].mean)

A plan's ranks do any other work with it by `rltrain.work.on_ranks`, each in an `open_session`.
"""

from __future__ import annotations

from rltrain.policies.evaluating import Result, evaluate
from rltrain.policies.finding import Trained, find_trained
from rltrain.policies.planning import plan_policy
from rltrain.policies.session import PolicySession, open_session

__all__ = [
    "PolicySession",
    "Result",
    "Trained",
    "evaluate",
    "find_trained",
    "open_session",
    "plan_policy",
]
