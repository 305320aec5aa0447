"""Search for options: each trial is a run, on any number of ranks."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from rltrain.commands import add_flags, read_flags, read_options
from rltrain.errors import UsageError
from rltrain.options import flag
from rltrain_sweep.options import SweepOptions


class SweepCommand:
    """Search for options: each trial is a run, on any number of ranks.

    Write what varies as log(1e-5,1e-2), interval(0,1), range(1,9,2) or choice(a,b), in quotes.
    Flags and overrides of a run are as for `rltrain`. The same command continues its study.

    Examples:
      rltrain sweep --study st --trials 40 --library rsl_rl "agent.gamma=choice(0.98,0.99)"
      rltrain sweep work st       another worker, here or where the folder is shared
      rltrain sweep best st       the best options so far, as a file for --agent-config
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags, and those of a run."""
        add_flags(parser, of=SweepOptions)
        add_flags(parser)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Begin a study, work on it, or show its best options."""
        from rltrain_sweep.checks import check_study
        from rltrain_sweep.others import take_space
        from rltrain_sweep.results import show_best
        from rltrain_sweep.study import Study
        from rltrain_sweep.work import start_work

        which, *rest = getattr(arguments, "words", None) or ("",)
        if which in ("work", "best"):
            if len(rest) != 1:
                raise UsageError(f"sweep {which}: name the folder of one study.")
            if more := [*words, *map(flag, set(vars(arguments)) - {"words", "parallel"})]:
                raise UsageError(f"sweep {which} {more[0]}: is the study's own. Leave it out.")
            own = read_flags(SweepOptions, arguments)
            study = Study(Path(rest[0]))
        else:
            if rest:
                raise UsageError(f"sweep {which} {rest[0]}: name one task.")
            names = {each.name for each in fields(SweepOptions)} - {"config"}
            given = {name: value for name, value in vars(arguments).items() if name not in names}
            run = read_options({**given, **({"task": which} if which else {})}, words)
            run = take_space(arguments, run)
            own = read_flags(SweepOptions, arguments)
            check_study(own, run)
            if own.dry_run:
                print("Every trial can be planned. Nothing was started (--dry-run).")
                return 0
            study = Study.create(Path(str(own.study)), own, run)
        status = 0 if which == "best" else start_work(study, own.parallel)
        return status or show_best(study)
