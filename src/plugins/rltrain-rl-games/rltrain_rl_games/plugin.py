"""What this plugin provides. Light: it imports neither torch nor rl_games."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rltrain.config import load_yaml
from rltrain.hookspecs import hookimpl
from rltrain.specs import LibrarySpec, Spec
from rltrain.types import TaskInfo
from rltrain_rl_games.options import OPTION_KEYS
from rltrain_rl_games.refusals import REFUSALS

__all__ = ["rltrain_provides"]

_DEFAULTS = Path(__file__).parent / "defaults"


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library."""
    return [
        LibrarySpec(
            name="rl_games",
            factory="rltrain_rl_games.adapter:RlGamesLibrary",
            frameworks=("torch",),
            algorithms=("ppo",),
            default_agent=_default_agent,
            required_keys=("params.algo.name", "params.config"),
            option_keys=OPTION_KEYS,
            run_keys={
                "seed": "params.seed",
                "num_envs": "params.config.num_actors",
                "max_iterations": "params.config.max_epochs",
            },
            refuses=REFUSALS,
            check_checkpoint="rltrain_rl_games.checkpoint:check",
        )
    ]


def _default_agent(task: TaskInfo, algorithm: str) -> Mapping[str, Any]:
    """Return the options tuned for the task, or those for its kind of actions."""
    tuned = _DEFAULTS / f"{task.name.replace('/', '-')}.yaml"
    kind = "continuous" if task.action == "continuous" else "discrete"
    path = tuned if tuned.exists() else _DEFAULTS / f"{algorithm}_{kind}.yaml"
    return load_yaml(str(path), "the defaults")
