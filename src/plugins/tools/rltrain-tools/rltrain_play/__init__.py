"""The commands `rltrain play`, `evaluate` and `export`: what was trained, put to use; and videos.

    trained = find_trained("latest", "best", {"num_envs": 10})
    (result,) = evaluate(trained, episodes=100)
    print(result.summaries["return"].mean)

`find_trained` is of `rltrain.policies`. The names below are what other plugins may import:
`read_evaluations` returns what is kept in a run folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltrain_play.evaluating import Result, evaluate
    from rltrain_play.kept import Evaluated, read_evaluations

__all__ = ["Evaluated", "Result", "evaluate", "read_evaluations"]


def __getattr__(name: str) -> Any:
    # Listing plugins imports this package: what evaluates is imported when it is asked for.
    if name not in __all__:
        raise AttributeError(name)
    from rltrain_play import evaluating, kept

    return getattr(kept if hasattr(kept, name) else evaluating, name)
