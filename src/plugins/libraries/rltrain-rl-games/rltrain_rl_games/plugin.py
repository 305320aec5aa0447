"""What this plugin provides. Importing it imports neither torch nor rl_games."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.hookspecs import hookimpl
from rltrain.specs import CheckpointFormat, LibrarySpec, OptionSchema, Spec
from rltrain_rl_games.declare.choices import choices
from rltrain_rl_games.declare.iteration import iteration, scale_mini_batches
from rltrain_rl_games.declare.keys import keys
from rltrain_rl_games.declare.options import RESTORED, default_agent, ignored
from rltrain_rl_games.declare.refusals import REFUSALS


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library."""
    return [
        LibrarySpec(
            name="rl_games",
            factory="rltrain_rl_games.run.library:RlGamesLibrary",
            frameworks=("torch",),
            algorithms=("ppo", "sac"),
            default_agent=default_agent,
            schema=OptionSchema(
                required=("params.algo.name", "params.config"),
                check_types=True,
                keys=keys,
                choices=choices,
                ignored=ignored,
                run_keys={
                    "seed": "params.seed",
                    "num_envs": "params.config.num_actors",
                    "max_iterations": "params.config.max_epochs",
                },
                restored=RESTORED,
            ),
            refuses=REFUSALS,
            iteration=iteration,
            scale_mini_batches=scale_mini_batches,
            checkpoint=CheckpointFormat(
                "rltrain_torch.checkpoints:top_level_keys", frozenset({"epoch", "frame"})
            ),
            # It imports torch's compiler, which asks whether there is a GPU.
            preload={"cpu": "rltrain_rl_games.run.preload"},
        )
    ]
