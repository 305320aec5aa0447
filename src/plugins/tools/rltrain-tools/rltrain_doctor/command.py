"""Check this machine with test ranks, to see whether a run is likely to work."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from rltrain.commands import add_flags, read_flags
from rltrain.options import Group, RunOptions, Scope, scoped

OWN = Group("options")


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """The command's own options."""

    json: bool = OWN.switch(Scope.COMMAND, "print one JSON object")
    no_ranks: bool = OWN.switch(Scope.COMMAND, "start no ranks")
    timeout: int = OWN.number(
        90, Scope.COMMAND, "time limit for each start of ranks, in seconds", 1, metavar="S"
    )


class DoctorCommand:
    """Check this machine with test ranks, to see whether a run is likely to work.

    Examples:
      rltrain doctor
      rltrain doctor --framework jax --nproc-per-node 4
      rltrain doctor --nnodes 2 --node-rank 0 --master-addr HOST    on each node, with its number
      torchrun --nproc_per_node 2 -m rltrain doctor                 the ranks of a launcher

    Each line is ok, a warning (some runs fail, or are slow) or a problem (no run can be expected to
    work). The exit status is 0 without a problem, 1 with one, 2 for a wrong command line.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags, and the flags of a run that say where it runs."""
        add_flags(parser, of=DoctorOptions)
        where = {*scoped(RunOptions, Scope.RANKS), "library", "max_restarts"}
        add_flags(parser, where - {"distributed"})  # It starts ranks anyway.

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Run all checks, print the findings, and return 1 if there is a problem."""
        from rltrain_doctor.checkup import checkup

        own = read_flags(DoctorOptions, arguments)
        return checkup({k: x for k, x in vars(arguments).items() if not hasattr(own, k)}, own)
