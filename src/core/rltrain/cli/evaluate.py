"""Measure what a run has learned: statistics of whole episodes of its policy."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from rltrain.cli import policy_flags

if TYPE_CHECKING:
    from rltrain.policies.evaluating import Result
    from rltrain.policies.finding import Trained

__all__ = ["EvaluateCommand"]

_OWN = ("episodes", "seeds", "all_checkpoints", "success_key", "json")

_PLACE = (
    *("distributed", "nproc_per_node", "num_gpus", "backend", "launcher", "cluster"),
    *("nnodes", "node_rank", "master_addr", "master_port", "coordinator_address"),
    *("rdzv_backend", "rdzv_endpoint", "rdzv_id", "local_addr", "join_timeout"),
)

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
        policy_flags.add_policy_flags(parser, _PLACE, without=("seed",))

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Evaluate, and print a table or JSON.

        Raises:
            UsageError: a RUN, a checkpoint or an option is wrong.
        """
        from rltrain.errors import UsageError
        from rltrain.policies.evaluating import table
        from rltrain.policies.finding import find_trained
        from rltrain.policies.statistics import check_installed
        from rltrain.terminal import one_line

        check_installed()
        if arguments.all_checkpoints and arguments.checkpoint is not None:
            raise UsageError(
                f"--all-checkpoints and --checkpoint {arguments.checkpoint} contradict each other. "
                "Give one of the two."
            )
        options = policy_flags.options_of(arguments, words, _OWN)
        options.setdefault("num_envs", min(_ENVIRONMENTS, arguments.episodes))
        found = [find_trained(name, arguments.checkpoint, options) for name in arguments.run]
        results = [result for each in found for result in _evaluate(each, arguments)]
        for result in results:
            if (why := result.keep()) is not None:
                print(f"rltrain: {one_line(why)}", file=sys.stderr)
        if results and arguments.json:
            print(json.dumps([result.as_json() for result in results], indent=1))
        elif results:
            print(table(results))
        return 0


def _evaluate(trained: Trained, arguments: argparse.Namespace) -> list[Result]:
    """Evaluate the checkpoints of one RUN; return nothing on nodes without rank 0."""
    from rltrain.options.secrets import hide
    from rltrain.policies.episodes import make_blocks
    from rltrain.policies.evaluating import Evaluation, Result
    from rltrain.policies.finding import all_checkpoints, iteration_of
    from rltrain.policies.planning import plan_policy
    from rltrain.policies.ranks import on_ranks

    checkpoints = [trained.checkpoint]
    if arguments.all_checkpoints and trained.run is not None:
        checkpoints = all_checkpoints(trained.run, bool(trained.options.get("trust_run")))
    plan = plan_policy(trained)
    config = plan.config
    blocks = make_blocks(arguments.seeds, arguments.episodes, config.num_envs)
    played = len(blocks) // len(arguments.seeds) * config.num_envs
    if plan.world is None or plan.world.is_root:
        text = f"{config.library} {config.algorithm} on {config.task}: {played} episodes"
        if played != arguments.episodes:
            text += (
                f" (--episodes {arguments.episodes}, made equal for {config.num_envs} environments)"
            )
        if len(arguments.seeds) > 1:
            text += f" of each of {len(arguments.seeds)} seeds"
        print(f"rltrain: {text}, {len(checkpoints)} checkpoint(s)", file=sys.stderr, flush=True)
    work = Evaluation(tuple(map(str, checkpoints)), tuple(blocks), arguments.success_key)
    return [
        Result(
            run=str(trained.run) if trained.run else None,
            checkpoint=str(checkpoint),
            iteration=iteration_of(checkpoint, config.trust_checkpoint),
            library=config.library,
            algorithm=config.algorithm,
            task=config.task,
            env=hide(dict(config.env)),
            seeds=tuple(arguments.seeds),
            episodes=tuple(episodes),
        )
        for checkpoint, episodes in zip(checkpoints, on_ranks(plan, work) or [], strict=False)
    ]


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _seed(text: str) -> int:
    if int(text) < 0:
        raise ValueError
    return int(text)


_count.__name__, _seed.__name__ = "number of episodes", "seed"  # As argparse names them.
