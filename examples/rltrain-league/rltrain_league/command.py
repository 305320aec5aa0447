"""The command: the runs of a folder, the best first."""

from __future__ import annotations

import argparse

from rltrain.errors import UsageError
from rltrain.policies import find_trained
from rltrain.runs import all_runs, load_runs
from rltrain_play import evaluate

__all__ = ["LeagueCommand"]


class LeagueCommand:
    """Evaluate the best checkpoint of each run, on two ranks, and print the best run first.

    Examples:
      rltrain league --log-root logs --episodes 100
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument(
            "--log-root", default="logs", metavar="DIR", help="folder of runs (logs)"
        )
        parser.add_argument(
            "--episodes", type=int, default=100, metavar="N", help="of each run (100)"
        )

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print a line for each run, and return the exit status.

        Raises:
            UsageError: there are no runs.
        """
        runs = all_runs(arguments.log_root)
        if not runs:
            raise UsageError(f"--log-root {arguments.log_root}: has no runs. Name another folder.")
        options = {"distributed": True, "nproc_per_node": 2, "num_envs": 5}
        rows = []
        for run in load_runs(runs):
            try:
                trained = find_trained(str(run.path), "best", options)
            except UsageError as error:  # It has no checkpoint, say.
                print(f"{run.name}: {error}")
                continue
            for result in evaluate(trained, episodes=arguments.episodes):
                rows.append((result.summaries["return"].mean, run.name, run.outcome))
        for mean, name, outcome in sorted(rows, reverse=True):
            print(f"{mean:10.2f}  {name}  {outcome}")
        return 0
