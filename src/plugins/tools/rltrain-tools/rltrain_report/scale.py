"""Train on several numbers of ranks, and print how much faster more are, and why not more."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.commands import add_flags, read_flags
from rltrain.errors import UsageError
from rltrain.options import Group, RunOptions, Scope, flag, hide_words, scoped

if TYPE_CHECKING:
    from rltrain.commands import Plan
    from rltrain.runs import Run

OWN, COMMAND = Group("options"), Scope.COMMAND

RESULT = "scale.json"


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
    """Train on several numbers of ranks, and print how much faster more are, and why not more.

    All other flags and overrides are those of a run, and given to each: `rltrain train --help`.

    Examples:
      rltrain scale --ranks 1 2 4 --library rl_games --max-iterations 20
      rltrain scale --ranks 1 2 4 8 --mode strong --total-envs 4096 --seeds 3 --task Ant-v5
      rltrain scale --ranks 8 16 32 --nnodes 4 --launcher slurm --target-return 300
      rltrain scale --runs logs/rl_games/Ant-v5/*

    After an interruption, the same command continues with the runs that are missing. Where each
    node needs a launcher of its own, train by hand on each number of ranks, and compare by --runs.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags."""
        add_flags(parser, of=ScaleOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Run what is missing, print the table, and write the page; 1 if a run failed."""
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
    from rltrain.runs import load_runs, real, shortest

    if any(word.replace("_", "-").startswith("--dry-run") for word in words):
        raise UsageError("--dry-run: rltrain scale plans every run before it starts one.")
    mode = own.mode or "weak"
    name, jobs = plan_jobs(words, read_run(["train", *words]), ranks, own.seeds or 1, mode)
    folder = real(own.output or name)
    experiment = {"mode": mode, "words": hide_words(words)}
    _begin(folder, experiment)
    print(f"{len(jobs)} runs, {mode} scaling; results in {shortest(folder)}")
    done = run_jobs(folder, jobs)
    runs = load_runs(done)
    if len({run.metrics.started.world_size for run in runs}) < 2:
        print("Nothing can be compared: runs have failed. The same command tries them again.")
        return 1
    results = _write(runs, mode, folder)
    (folder / RESULT).write_text(json.dumps({**experiment, "results": results}, indent=1) + "\n")
    return int(len(done) < len(jobs))


def _compare(own: ScaleOptions, named: Sequence[str], words: Sequence[str]) -> int:
    from rltrain_report.command import new_folder
    from rltrain_report.runs import read_runs

    wrong = [flag(name) for name in ("ranks", "mode", "seeds") if getattr(own, name) is not None]
    if wrong or words:
        raise UsageError(f"{[*wrong, *words][0]}: nothing is started with --runs. Leave it out.")
    runs = read_runs(named)
    folder = Path(own.output).expanduser() if own.output else new_folder("scale")
    alike = len({run.metrics.started.num_envs for run in runs}) == 1
    _write(runs, "weak" if alike else "strong", folder)
    return 0


def _write(runs: Sequence[Run], mode: str, folder: Path) -> list[dict[str, Any]]:
    """Print the table and the reasons, write the page, and return the results for JSON."""
    from rltrain_report.command import print_written
    from rltrain_report.page import write_page
    from rltrain_report.scaling import as_markdown, reasons, result_table, scale_page, sizes_of

    sizes = sizes_of(runs)
    print(f"\n{as_markdown(result_table(sizes))}\n")
    print(*reasons(sizes, mode), "", sep="\n")
    print_written(write_page(scale_page(sizes, mode), folder, "scale.html"))
    return [size.as_json() for size in sizes]


def _begin(folder: Path, experiment: Mapping[str, Any]) -> None:
    """Make the folder of the results; refuse one of another experiment."""
    path = folder / RESULT
    try:
        (folder / "output").mkdir(parents=True, exist_ok=True)
        before = json.loads(path.read_text()) if path.exists() else {**experiment}
        other = {name: before[name] for name in experiment}
        path.write_text(json.dumps(before, indent=1) + "\n")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(f"--output {folder}: {error}. Name another folder.") from error
    if other != experiment:
        raise UsageError(
            f"--output {folder}: holds another experiment: rltrain scale --mode {other['mode']} "
            f"{' '.join(other['words'])}. Name another folder."
        )


def plan_jobs(
    words: Sequence[str], options: Mapping[str, Any], ranks: Sequence[int], seeds: int, mode: str
) -> tuple[str, dict[str, list[str]]]:
    """Plan every run, so that what cannot work is refused before the first one starts.

    The user's words for all runs are `words`, and as fields of `RunOptions` `options`. Return the
    default folder of the results; and by name of each run, the words after `rltrain`.
    """
    requested = RunOptions.from_mapping(options)
    _check(options, requested, mode)
    counts = sorted(set(ranks))
    each = -(-counts[-1] // requested.nnodes)  # Ranks of a node: one is filled before the next.
    shared: dict[str, Any] = {"distributed": True}
    plans: list[Plan] = []
    places: dict[int, dict[str, int]] = {}
    for count in counts:
        nodes = -(-count // each)
        if count % nodes:
            raise UsageError(
                f"--ranks {count}: cannot be divided over {nodes} nodes of {each} ranks. Leave it "
                "out, or change --nnodes."
            )
        places[count] = {"nnodes": nodes, "nproc_per_node": count // nodes}
        plans.append(_plan({**options, **shared, **places[count]}, count))
        if mode == "strong" and requested.total_envs is None:
            shared.setdefault("total_envs", plans[0].config.num_envs * counts[0])
    config = plans[0].config
    label = "".join(letter if letter.isalnum() else "-" for letter in config.task)
    jobs = {
        f"ranks-{count}_seed-{seed}": [*words, *_flags({**shared, **places[count], "seed": seed})]
        for seed in range(requested.seed, requested.seed + seeds)
        for count in counts
    }
    return f"scale/{config.library}_{label}_{mode}", jobs


def _check(options: Mapping[str, Any], requested: RunOptions, mode: str) -> None:
    """Refuse options that contradict the experiment."""
    ours = {*scoped(RunOptions, Scope.ORIGIN), *scoped(RunOptions, Scope.OUTPUT)} - {"checkpoint"}
    for name in ("nproc_per_node", "node_rank", *sorted(ours)):
        if options.get(name) is not None:
            raise UsageError(f"{flag(name)}: rltrain scale sets this for each run. Leave it out.")
    if requested.seed < 0:
        raise UsageError("--seed -1: give the first seed, 0 or a larger number.")
    wrong, right = ("total_envs", "num_envs") if mode == "weak" else ("num_envs", "total_envs")
    if options.get(wrong) is not None:
        raise UsageError(
            f"--mode {mode} and {flag(wrong)} contradict each other. Give {flag(right)} N, or "
            f"--mode {'strong' if mode == 'weak' else 'weak'}."
        )


def _plan(options: Mapping[str, Any], ranks: int) -> Plan:
    from rltrain.commands import make_plan

    try:
        plan = make_plan(options)
    except UsageError as error:
        raise UsageError(f"--ranks {ranks}: {error}") from error
    config, instead = plan.config, "compare the runs by rltrain scale --runs RUN..."
    if plan.world is not None:
        raise UsageError(
            f"rltrain scale starts all ranks itself, and was itself started by {config.cluster}. "
            f"Start it once, without a launcher; or train on each number of ranks, and {instead}"
        )
    count = config.nproc_per_node or 1
    if config.gpu_ids and count > len(config.gpu_ids):
        raise UsageError(
            f"--ranks {ranks}: --nproc-per-node {count}: only {len(config.gpu_ids)} GPU(s), and "
            "ranks that share one say nothing about speed. Leave it out."
        )
    if config.nnodes > 1 and not plan.starts_nodes:
        raise UsageError(
            f"--nnodes {config.nnodes}: on several nodes, rltrain scale needs a launcher that "
            "starts all of them, such as --launcher slurm. Otherwise train on each number of "
            f"ranks by hand, and {instead}"
        )
    total = plan.iteration.iterations if plan.iteration else config.max_iterations
    if total is None and config.target_return is None:
        raise UsageError(
            f"The options of {config.library} do not say when a run ends. Give --max-iterations N "
            "or --target-return R."
        )
    return plan


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Return options as words."""
    pairs = ((flag(name), "" if value is True else str(value)) for name, value in options.items())
    return [word for pair in pairs for word in pair if word]


def run_jobs(folder: Path, jobs: Mapping[str, Sequence[str]]) -> list[Path]:
    """Run the jobs that have not finished yet, and return the run folders of those that have."""
    from rltrain.builtin.console import duration
    from rltrain.runs import shortest

    done = []
    for number, (name, words) in enumerate(jobs.items(), start=1):
        print(f"[{number}/{len(jobs)}] {name}", end="  ", flush=True)
        if (run := _finished(folder, name)) is not None:
            print("was done before", flush=True)
            done.append(run)
            continue
        output, began = folder / "output" / f"{name}.txt", time.monotonic()
        command = [sys.executable, "-P", "-m", "rltrain", *words]
        command += ["--log-root", str(folder / "runs"), "--run-name", name]
        with output.open("w") as file:
            status = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            ).returncode
        if (run := _finished(folder, name)) is not None:
            print(duration(time.monotonic() - began), flush=True)
            done.append(run)
            continue
        print(f"failed with exit status {status}; {shortest(output)} ends with:")
        lines = [line for line in output.read_text(errors="replace").splitlines() if line]
        print(*(f"    {line}" for line in lines[-5:]), sep="\n", flush=True)
    return done


def _finished(folder: Path, name: str) -> Path | None:
    """Return the newest run folder of this run name that has finished."""
    from rltrain.runs import Run, all_runs

    for path in all_runs(str(folder / "runs")):
        rest = path.name.rpartition(f"_{name}")[2]  # "seed-1" is not "seed-12".
        same = not rest or (rest.startswith("_") and rest[1:].isdecimal())
        if same and Run(path).outcome in ("finished", "solved"):
            return path
    return None
