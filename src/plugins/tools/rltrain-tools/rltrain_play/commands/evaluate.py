"""Measure what a run has learned: statistics of whole episodes of its policy."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from rltrain.commands import add_flags, read_flags
from rltrain.options import RunOptions, Scope, scoped
from rltrain_play.commands import flags as policy_flags
from rltrain_play.commands.flags import OWN

COMMAND = Scope.COMMAND

_ENVIRONMENTS = 25
"""The default number of environments a rank: 100 episodes are four blocks for ranks to share."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """The command's own options."""

    run: tuple[str, ...] = OWN.option(
        (), COMMAND, policy_flags.RUN, kind="words", metavar="RUN", required=True
    )
    checkpoint: str | None = policy_flags.which_checkpoint()
    episodes: int = OWN.number(100, COMMAND, "episodes of each seed", 1)
    seeds: tuple[int, ...] = OWN.numbers(
        (0,),
        COMMAND,
        "seeds of the environments; the episodes of all are counted together",
        0,
        metavar="S",
        default_text="0",
    )
    all_checkpoints: bool = OWN.switch(COMMAND, "evaluate every checkpoint of each run")
    success_key: str | None = OWN.option(
        None,
        COMMAND,
        "where the task's infos say whether an episode was a success",
        metavar="KEY",
        default_text="success",
    )
    json: bool = OWN.switch(COMMAND, "print JSON, with each episode")


class EvaluateCommand:
    """Measure what a run has learned: statistics of whole episodes of its policy.

    Examples:
      rltrain evaluate latest
      rltrain evaluate RUN --checkpoint best --episodes 1000 --num-envs 250
      rltrain evaluate RUN --seeds 0 1 2 --distributed --nproc-per-node 2
      rltrain evaluate RUN1 RUN2 --all-checkpoints --json > results.json
      rltrain evaluate model_1499.pt --library rsl_rl --task T --agent-config agent.yaml

    Each environment plays equally many episodes, so that short ones are not favored. On any number
    of ranks the episodes are the same.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags, and those of a run that a policy has."""
        add_flags(parser, of=EvaluateOptions)
        policy_flags.add_policy_flags(parser, *scoped(RunOptions, Scope.RANKS))

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Evaluate, and print a table or JSON."""
        from rltrain.commands import json_alone, print_json
        from rltrain.errors import UsageError
        from rltrain.policies import find_trained
        from rltrain.terminal import note, one_line
        from rltrain_play.evaluating import evaluate, table

        own = read_flags(EvaluateOptions, arguments)
        if own.all_checkpoints and own.checkpoint is not None:
            raise UsageError(
                f"--all-checkpoints and --checkpoint {own.checkpoint} contradict each other. "
                "Give one of the two."
            )
        options = policy_flags.options_of(arguments, words, *scoped(RunOptions, Scope.RANKS))
        options.setdefault("num_envs", min(_ENVIRONMENTS, own.episodes))
        found = [find_trained(name, own.checkpoint, options) for name in own.run]
        with json_alone(own.json):
            results = [
                result
                for trained in found
                for result in evaluate(
                    trained,
                    episodes=own.episodes,
                    seeds=own.seeds,
                    checkpoints=trained.all_checkpoints() if own.all_checkpoints else (),
                    success_key=own.success_key,
                )
            ]
        for result in results:
            if (why := result.keep()) is not None:
                note(one_line(why))
        if results and own.json:
            print_json([result.as_json() for result in results])
        elif results:
            print(table(results))
        return 0
