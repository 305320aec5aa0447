"""Train on several numbers of ranks, and say how much faster more are, and why."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.commands import add_flags, read_flags
from rltrain.errors import UsageError
from rltrain.options import Group, Scope

if TYPE_CHECKING:
    from rltrain.runs import Run

OWN, COMMAND = Group("options"), Scope.COMMAND


@dataclass(frozen=True, kw_only=True)
class ScaleOptions:
    """The command's own options."""

    ranks: tuple[int, ...] | None = OWN.numbers(
        None, COMMAND, "the numbers of ranks, of all nodes", 1
    )
    mode: str | None = OWN.choice(
        None,
        COMMAND,
        "weak: the same environments a rank; strong: the same in all",
        ("weak", "strong"),
        default_text="weak",
    )
    seeds: int | None = OWN.number(
        None, COMMAND, "runs on each number, from --seed on", 1, default_text="1"
    )
    runs: tuple[str, ...] | None = OWN.option(
        None, COMMAND, "start nothing: compare these runs", kind="values", metavar="RUN"
    )
    output: str | None = OWN.option(
        None,
        COMMAND,
        "folder of the results",
        metavar="DIR",
        default_text="below scale, named by library, task and mode",
    )


class ScaleCommand:
    """Train on several numbers of ranks, and say how much faster more are, and why.

    All other flags and overrides are those of a run, and given to each: `rltrain train --help`.

    Examples:
      rltrain scale --ranks 1 2 4 --library rl_games --max-iterations 20
      rltrain scale --ranks 1 2 4 8 --mode strong --total-envs 4096 --seeds 3 --task Ant-v5
      rltrain scale --ranks 8 16 32 --nnodes 4 --launcher slurm --target-return 300
      rltrain scale --runs logs/rl_games/Ant-v5/*

    Interrupted, the same command goes on with the runs that are missing. Where each node needs a
    launcher of its own, train by hand on each number of ranks, and compare the runs by --runs.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags."""
        add_flags(parser, of=ScaleOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Run what is missing, print the table, and write the page.

        Returns:
            1 if a run failed.
        """
        own = read_flags(ScaleOptions, arguments)
        if own.runs is not None:
            return _compare(own, own.runs, words)
        if own.ranks is None:
            raise UsageError(
                "Give --ranks N..., the numbers of ranks; or --runs RUN..., what to compare."
            )
        if len(set(own.ranks)) < 2:
            raise UsageError("--ranks: give at least two numbers, such as --ranks 1 2 4.")
        return _train(own, own.ranks, words)


def _train(own: ScaleOptions, ranks: Sequence[int], words: Sequence[str]) -> int:
    from rltrain.commands import read_run
    from rltrain.runs import load_runs, shortest
    from rltrain_report.scale.experiment import plan_experiment
    from rltrain_report.scale.running import run_jobs

    if any(word.replace("_", "-").startswith("--dry-run") for word in words):
        raise UsageError("--dry-run: rltrain scale plans every run before it starts one.")
    options = read_run(["train", *words])
    mode = own.mode or "weak"
    experiment = plan_experiment(
        words,
        options,
        ranks=ranks,
        seeds=own.seeds or 1,
        mode=mode,
        output=own.output,
    )
    print(f"{len(experiment.jobs)} runs, {mode} scaling; results in {shortest(experiment.folder)}")
    done, failed = run_jobs(experiment)
    runs = load_runs(done.values())
    if len({run.metrics.started.world_size for run in runs}) < 2:
        print("Nothing can be compared: runs have failed. The same command tries them again.")
        return 1
    experiment.save(done, _write(runs, mode, experiment.folder))
    return 1 if failed else 0


def _compare(own: ScaleOptions, named: Sequence[str], words: Sequence[str]) -> int:
    from rltrain_report.command import new_folder
    from rltrain_report.runs import read_runs
    from rltrain_report.scale.sizes import mode_of

    wrong = [name for name in ("ranks", "mode", "seeds") if getattr(own, name) is not None]
    if wrong or words:
        named = f"--{wrong[0]}" if wrong else words[0]
        raise UsageError(f"{named}: nothing is started with --runs. Leave one of the two out.")
    runs = read_runs(named)
    mode = mode_of(runs)
    folder = Path(own.output).expanduser() if own.output else new_folder("scale")
    _write(runs, mode, folder)
    return 0


def _write(runs: Sequence[Run], mode: str, folder: Path) -> list[dict[str, Any]]:
    """Print the table and the reasons, write the page, and return the results for JSON."""
    from rltrain_report.command import tell
    from rltrain_report.page import write_page
    from rltrain_report.scale.results import as_markdown, result_table, scale_page
    from rltrain_report.scale.sizes import sizes_of
    from rltrain_report.scale.words import reasons

    sizes = sizes_of(runs)
    print(f"\n{as_markdown(result_table(sizes))}\n")
    for line in reasons(sizes, mode):
        print(line)
    print()
    tell(write_page(scale_page(sizes, mode), folder, "scale.html"))
    return [size.as_json() for size in sizes]
