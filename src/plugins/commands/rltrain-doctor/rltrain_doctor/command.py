"""Check this machine with test ranks, to see whether a run is likely to work."""

from __future__ import annotations

import argparse
import math

from rltrain.commands import add_flags
from rltrain.options import RunOptions, Scope, scoped


class DoctorCommand:
    """Check this machine with test ranks, to see whether a run is likely to work.

    Examples:
      rltrain doctor
      rltrain doctor --fix                        save what NCCL needs here, for later runs
      rltrain doctor --framework jax --nproc-per-node 4
      rltrain doctor --nnodes 2 --node-rank 0 --master-addr HOST    on each node, with its number
      torchrun --nproc_per_node 2 -m rltrain doctor                 the ranks of a launcher

    Each line is ok, a warning (some runs fail, or are slow) or a problem (no run can be expected to
    work). The exit status is 0 without a problem, 1 with one, 2 for a wrong command line.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags, and the flags of a run that say where it runs."""
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--fix",
            action="store_true",
            help="if NCCL fails, save variables with which it works, for later runs",
        )
        parser.add_argument("--no-ranks", action="store_true", help="start no ranks")
        parser.add_argument(
            "--timeout",
            type=_seconds,
            default=90.0,
            metavar="S",
            help="time limit for each start of ranks, in seconds (90)",
        )

        where = {*scoped(RunOptions, Scope.RANKS), "library", "max_restarts"}
        add_flags(parser, where - {"distributed"})  # It starts ranks anyway.

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Run all checks, print the findings, and return 1 if there is a problem."""
        from rltrain_doctor.checkup import checkup

        options = dict(vars(arguments))
        own = {name: options.pop(name) for name in ("json", "fix", "no_ranks", "timeout")}
        return checkup(
            options,
            as_json=own["json"],
            fix=own["fix"],
            start_ranks=not own["no_ranks"],
            timeout=own["timeout"],
        )


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError
    return number


_seconds.__name__ = "number of seconds"  # As argparse names it: "invalid number of seconds value".
