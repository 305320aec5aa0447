"""What this plugin provides. Importing it imports neither torch nor rl_games."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.options import load_yaml, overlaid
from rltrain.specs import LibrarySpec, Spec
from rltrain.types import TaskInfo
from rltrain_adapters import MANY_ENVS
from rltrain_rl_games.iteration import iteration, scale_mini_batches
from rltrain_rl_games.keys import RESTORED, keys
from rltrain_rl_games.refusals import GROUPS_NETWORK, REFUSALS
from rltrain_rl_games.unread import unread
from rltrain_rl_games.words import words

_DEFAULTS = Path(__file__).parent / "defaults"


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
            same_kinds=True,
            keys=keys,
            words=words,
            unread=unread,
            run_keys={
                "seed": "params.seed",
                "num_envs": "params.config.num_actors",
                "max_iterations": "params.config.max_epochs",
            },
            restored=RESTORED,
            refuses=REFUSALS,
            iteration=iteration,
            scale_mini_batches=scale_mini_batches,
            read_checkpoint="rltrain_torch.checkpoints:top_level_keys",
            checkpoint_keys=frozenset({"epoch", "frame"}),
            # It imports torch's compiler, which asks whether there is a GPU.
            preload={"cpu": "rltrain_rl_games.preload"},
        )
    ]


def _default_agent(task: TaskInfo, algorithm: str) -> Mapping[str, Any]:
    """Return the options for a task's actions, number of environments and observations."""
    # SAC with other actions is refused later, with the reason.
    action = "continuous" if algorithm == "sac" else task.action
    scale = "" if task.num_envs >= MANY_ENVS else "_few_envs"
    kinds = (f"{action}{scale}", action)
    files = (_DEFAULTS / f"{algorithm}_{kind}.yaml" for kind in kinds)
    options = load_yaml(str(next(path for path in files if path.exists())), "the defaults")
    if algorithm == "ppo" and task.has_images:
        options = overlaid(options, load_yaml(str(_DEFAULTS / "ppo_images.yaml"), "the defaults"))
        if task.images != ("policy",):
            options = overlaid(options, _options_for_groups(task))
    return options


def _options_for_groups(task: TaskInfo) -> dict[str, Any]:
    """Return additional options for a task that has images beside the group `policy`."""
    groups = list(dict.fromkeys(["policy", *task.images]))
    return {
        "params": {
            "env": {"obs_groups": {"obs": groups}, "concate_obs_groups": False},
            "network": {"name": GROUPS_NETWORK},
            "config": {"normalize_input": "policy" not in task.images},
        }
    }
