"""Write what runs have done as one HTML page, with its pictures beside it."""

from __future__ import annotations

import argparse
from pathlib import Path

from rltrain.options import RunOptions


class ReportCommand:
    """Write what runs have done as one HTML page, with its pictures beside it.

    Examples:
      rltrain report latest
      rltrain report logs/rl_games/CartPole-v1/* --output cartpole

    Runs that differ in nothing but the seed are drawn as one line with a band. The page opens
    without a network. A run that still trains is shown as far as it has come.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument(
            "runs",
            nargs="+",
            metavar="RUN",
            help="run folder, checkpoint in one, or latest: the newest below --log-root",
        )
        parser.add_argument(
            "--output",
            metavar="DIR",
            help="folder for the page (report in the run folder; of several runs, a new folder "
            "here)",
        )
        parser.add_argument(
            "--log-root",
            default=RunOptions.log_root,
            metavar="DIR",
            help=f"folder for run folders ({RunOptions.log_root})",
        )

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Write the page and say where it is."""
        from rltrain.runs import check_inside
        from rltrain_report.page import write_page
        from rltrain_report.report import report_page
        from rltrain_report.runs import read_runs

        runs = read_runs(arguments.runs, arguments.log_root)
        if arguments.output is not None:
            folder = Path(arguments.output).expanduser()
        else:
            folder = runs[0].path / "report" if len(runs) == 1 else new_folder("report")
            if len(runs) == 1:
                check_inside(runs[0].path, folder, False, "Name another folder with --output")
        tell(write_page(report_page(runs), folder, "report.html"))
        return 0


def new_folder(name: str) -> Path:
    """Return a folder of this name in the working folder, or with a number, that is not there."""
    number = 1
    while (path := Path(name if number == 1 else f"{name}_{number}")).exists():
        number += 1
    return path


def tell(written: list[Path]) -> None:
    """Say what was written."""
    from rltrain.runs import shortest

    page, *pictures = written
    print(f"page      {shortest(page.resolve())}  {page.stat().st_size / 1e6:.1f} MB")
    print(f"pictures  {len(pictures)} PNG files beside it")
