"""What this plugin provides. Light: it imports neither torch nor rl_games."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.options import load_yaml, overlaid
from rltrain.specs import LibrarySpec, Spec
from rltrain.types import TaskInfo
from rltrain_rl_games.iteration import iteration, scale_mini_batches
from rltrain_rl_games.options import OPTION_KEYS
from rltrain_rl_games.refusals import REFUSALS, SEVERAL_GROUPS

__all__ = ["rltrain_provides"]

_DEFAULTS = Path(__file__).parent / "defaults"

_MANY_ENVS = 64
"""From here on, short rollouts of many environments learn faster than long ones of few."""


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library."""
    return [
        LibrarySpec(
            name="rl_games",
            factory="rltrain_rl_games.adapter:RlGamesLibrary",
            frameworks=("torch",),
            algorithms=("ppo", "sac"),
            default_agent=_default_agent,
            required_keys=("params.algo.name", "params.config"),
            option_keys=OPTION_KEYS,
            run_keys={
                "seed": "params.seed",
                "num_envs": "params.config.num_actors",
                "max_iterations": "params.config.max_epochs",
            },
            refuses=REFUSALS,
            iteration=iteration,
            scale_mini_batches=scale_mini_batches,
            read_checkpoint="rltrain_torch.checkpoints:top_level_keys",
            checkpoint_keys=frozenset({"epoch", "frame"}),
        )
    ]


def _default_agent(task: TaskInfo, algorithm: str) -> Mapping[str, Any]:
    """Return the options for a task's actions, number of environments and observations."""
    # SAC's are refused, by name, for other actions than its own.
    action = "continuous" if algorithm == "sac" else task.action
    scale = "" if task.num_envs >= _MANY_ENVS else "_few_envs"
    kinds = (f"{action}{scale}", action)
    files = (_DEFAULTS / f"{algorithm}_{kind}.yaml" for kind in kinds)
    options = load_yaml(str(next(path for path in files if path.exists())), "the defaults")
    if algorithm == "ppo" and task.has_images:
        options = overlaid(options, load_yaml(str(_DEFAULTS / "ppo_images.yaml"), "the defaults"))
        if task.images != ("policy",):
            options = overlaid(options, _of_groups(task))
    return options


def _of_groups(task: TaskInfo) -> dict[str, Any]:
    """Return what options have besides where there are images beside the group `policy`."""
    seen = list(dict.fromkeys(["policy", *task.images]))
    return {
        "params": {
            "env": {"obs_groups": {"obs": seen}, "concate_obs_groups": False},
            "network": {"name": SEVERAL_GROUPS},
            "config": {"normalize_input": "policy" not in task.images},
        }
    }
