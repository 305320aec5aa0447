"""The commands `rltrain play`, `evaluate` and `export`: what was trained, put to use; and videos.

    trained = find_trained("latest", "best", {"num_envs": 10})
    (result,) = evaluate(trained, episodes=100)
    print(result.summaries["return"].mean)

`find_trained` is of `rltrain.policies`. `evaluate` and `Result` are what other plugins may import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltrain_play.evaluating import Result, evaluate

__all__ = ["Result", "evaluate"]


def __getattr__(name: str) -> Any:
    # Listing plugins imports this package: what evaluates is imported when it is asked for.
    if name not in __all__:
        raise AttributeError(name)
    from rltrain_play import evaluating

    return getattr(evaluating, name)
