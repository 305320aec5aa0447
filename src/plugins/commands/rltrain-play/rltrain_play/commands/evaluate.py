"""Measure what a run has learned: statistics of whole episodes of its policy."""

from __future__ import annotations

import argparse

from rltrain.options import RunOptions, Scope, scoped
from rltrain_play.commands import flags as policy_flags

_ENVIRONMENTS = 25
"""The default number of environments a rank: 100 episodes are four blocks for ranks to share."""


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
        policy_flags.add_run(parser, nargs="+")
        parser.add_argument(
            "--episodes", type=_count, default=100, metavar="N", help="episodes of each seed (100)"
        )
        parser.add_argument(
            "--seeds",
            type=_seed,
            nargs="+",
            default=[0],
            metavar="S",
            help="seeds of the environments; the episodes of all are counted together (0)",
        )
        parser.add_argument(
            "--all-checkpoints", action="store_true", help="evaluate every checkpoint of each run"
        )
        parser.add_argument(
            "--success-key",
            metavar="KEY",
            help="where the task's infos say whether an episode was a success (success)",
        )
        parser.add_argument("--json", action="store_true", help="print JSON, with each episode")
        of_ranks = scoped(RunOptions, Scope.RANKS)
        policy_flags.add_policy_flags(parser, of_ranks, without=("seed",))

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Evaluate, and print a table or JSON."""
        from rltrain.commands import json_alone, print_json
        from rltrain.errors import UsageError
        from rltrain.terminal import note, one_line
        from rltrain_play.evaluating import evaluate, table
        from rltrain_play.native import find

        if arguments.all_checkpoints and arguments.checkpoint is not None:
            raise UsageError(
                f"--all-checkpoints and --checkpoint {arguments.checkpoint} contradict each other. "
                "Give one of the two."
            )
        options = policy_flags.options_of(arguments, words, scoped(RunOptions, Scope.RANKS))
        options.setdefault("num_envs", min(_ENVIRONMENTS, arguments.episodes))
        found = [find(name, arguments.checkpoint, options) for name in arguments.run]
        with json_alone(arguments.json):
            results = [
                result
                for trained in found
                for result in evaluate(
                    trained,
                    episodes=arguments.episodes,
                    seeds=arguments.seeds,
                    checkpoints=trained.all_checkpoints() if arguments.all_checkpoints else (),
                    success_key=arguments.success_key,
                )
            ]
        for result in results:
            if (why := result.keep()) is not None:
                note(one_line(why))
        if results and arguments.json:
            print_json([result.as_json() for result in results])
        elif results:
            print(table(results))
        return 0


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _seed(text: str) -> int:
    if int(text) < 0:
        raise ValueError
    return int(text)


_count.__name__, _seed.__name__ = "number of episodes", "seed"  # As argparse names them.
