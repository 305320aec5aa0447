"""Write what runs have done as one HTML page, with its pictures next to it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from rltrain.commands import add_flags, read_flags
from rltrain.options import Group, RunOptions, Scope

OWN = Group("options")


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """Which runs a command shows."""

    runs: tuple[str, ...] = OWN.option(
        (),
        Scope.COMMAND,
        "run folder, checkpoint in one, or latest: the newest below --log-root",
        kind="words",
        metavar="RUN",
        required=True,
    )
    log_root: str = OWN.option(
        RunOptions.log_root, Scope.COMMAND, "folder for run folders", metavar="DIR"
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(RunsOptions):
    """The command's options."""

    output: str | None = OWN.option(
        None,
        Scope.COMMAND,
        "folder for the page",
        metavar="DIR",
        default_text="report in the run folder; of several runs, a new folder here",
    )


class ReportCommand:
    """Write what runs have done as one HTML page, with its pictures next to it.

    Examples:
      rltrain report latest
      rltrain report logs/rl_games/CartPole-v1/* --output cartpole

    Runs that differ in nothing but the seed are one line with a band. The page opens without a
    network. A run that still trains is shown so far.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        add_flags(parser, of=ReportOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Write the page and print where it is."""
        from rltrain.runs import check_inside, shortest
        from rltrain.terminal import in_bytes
        from rltrain_report.page import write_page
        from rltrain_report.report import report_page
        from rltrain_report.runs import read_runs

        own = read_flags(ReportOptions, arguments)
        runs = read_runs(own.runs, own.log_root)
        if own.output is not None:
            folder = Path(own.output).expanduser()
        else:
            folder = runs[0].path / "report" if len(runs) == 1 else _new_folder()
            if len(runs) == 1:
                check_inside(runs[0].path, folder, False, "Name another folder with --output")
        page, *pictures = write_page(report_page(runs), folder, "report.html")
        print(f"page      {shortest(page.resolve())}  {in_bytes(page.stat().st_size)}")
        print(f"pictures  {len(pictures)} PNG files next to it")
        return 0


def _new_folder() -> Path:
    """Return a new folder `report` in the working folder, with a number if it is taken."""
    number = 1
    while (path := Path("report" if number == 1 else f"report_{number}")).exists():
        number += 1
    return path
