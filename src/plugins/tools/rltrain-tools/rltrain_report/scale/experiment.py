"""What is run: a run for each number of ranks and each seed, all planned before one starts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rltrain.commands import Plan, make_plan
from rltrain.data import parse_json
from rltrain.errors import UsageError, in_a_line
from rltrain.launch import whole
from rltrain.options import RunOptions, Scope, flag, hide_words, scoped
from rltrain.runs import all_runs, read_text, real

RESULT = "scale.json"
"""In the experiment's folder: its command line, and the runs that are done."""

_LARGEST = 64 << 20
"""Bytes of that file that are read."""

_UNREADABLE = (OSError, ValueError, LookupError, AttributeError, TypeError)
"""What reading it may raise, if somebody else wrote it."""

_OURS = {
    "nproc_per_node": "--ranks sets it",
    **dict.fromkeys(scoped(RunOptions, Scope.ORIGIN), "each run is a new one"),
    **dict.fromkeys(scoped(RunOptions, Scope.OUTPUT), "--output names the folder of all runs"),
    "node_rank": "rltrain scale sets it",
}
"""Options of a run that cannot be given, and why."""


@dataclass(frozen=True)
class Job:
    """One run of the experiment."""

    ranks: int
    seed: int
    words: tuple[str, ...]
    """After `rltrain`, without where the run is written."""

    @property
    def name(self) -> str:
        """The run's name, which its folder ends with."""
        return f"ranks-{self.ranks}_seed-{self.seed}"


@dataclass(frozen=True)
class Experiment:
    """Runs that differ in the number of ranks and in the seed."""

    folder: Path
    mode: str
    words: tuple[str, ...]
    """The user's words for all runs."""
    jobs: tuple[Job, ...]

    @property
    def runs(self) -> Path:
        """The folder of the run folders: their log root."""
        return self.folder / "runs"

    def command(self, job: Job) -> list[str]:
        """Return the words after `rltrain` that run a job."""
        return [*job.words, "--log-root", str(self.runs), "--run-name", job.name]

    def finished(self) -> dict[str, Path]:
        """Return the run folders of the jobs that were done before, by the job's name."""
        path = self.folder / RESULT
        try:
            saved = parse_json(read_text(path, _LARGEST, self.folder))
            mode, words = saved["mode"], tuple(map(str, saved["words"]))
            runs = {name: real(self.folder / run) for name, run in saved["runs"].items()}
        except FileNotFoundError:
            return {}
        except _UNREADABLE as error:
            raise UsageError(
                f"{path}: cannot be read ({in_a_line(error)}). Name another --output."
            ) from error
        if (mode, words) != (self.mode, tuple(hide_words(self.words))):
            raise UsageError(
                f"--output {self.folder}: holds another experiment: rltrain scale --mode {mode} "
                f"{' '.join(words)}. Name another folder."
            )
        wanted = {job.name for job in self.jobs}
        there = set(all_runs(str(self.runs)))
        return {name: run for name, run in runs.items() if name in wanted and run in there}

    def save(self, runs: Mapping[str, Path], results: Sequence[Mapping[str, Any]] = ()) -> None:
        """Write the experiment's file, so that it is complete or absent."""
        content = {
            "mode": self.mode,
            "words": hide_words(self.words),
            "runs": {name: os.path.relpath(run, self.folder) for name, run in runs.items()},
            "results": results,
        }
        with whole(self.folder / RESULT) as partial:
            partial.write_text(json.dumps(content, indent=1) + "\n")


def plan_experiment(
    words: Sequence[str],
    options: Mapping[str, Any],
    *,
    ranks: Sequence[int],
    seeds: int,
    mode: str,
    output: str | None,
) -> Experiment:
    """Plan every run, so that what cannot work is refused before the first one starts.

    Args:
        words: the user's words for all runs.
        options: the same, as fields of `RunOptions`.
        ranks: the numbers of ranks.
        seeds: how many seeds each of them gets.
        mode: "weak", the same environments a rank; or "strong", the same in all.
        output: the folder of the results; None for one named by what is run.
    """
    requested = RunOptions.from_mapping(options)
    _check(options, requested, mode)
    counts = sorted(set(ranks))
    nodes = _nodes(requested.nnodes, counts)
    places = {
        count: {"nnodes": nodes[count], "nproc_per_node": count // nodes[count]} for count in counts
    }
    all_runs: dict[str, Any] = {"distributed": True}
    if mode == "strong" and requested.total_envs is None:
        alone = _plan({**options, **all_runs, **places[counts[0]]}, counts[0])
        all_runs["total_envs"] = alone.config.num_envs * counts[0]
    plans = [_plan({**options, **all_runs, **places[count]}, count) for count in counts]
    folder = real(output or _name(plans[0].config, mode))
    experiment = Experiment(folder, mode, tuple(words), ())
    jobs = [
        Job(count, seed, (*words, *_flags({**all_runs, **places[count], "seed": seed})))
        for seed in range(requested.seed, requested.seed + seeds)
        for count in counts
    ]
    return replace(experiment, jobs=tuple(jobs))


def _check(options: Mapping[str, Any], requested: RunOptions, mode: str) -> None:
    """Refuse options that contradict the experiment."""
    for name, why in _OURS.items():
        if name != "checkpoint" and options.get(name) is not None:
            raise UsageError(f"{flag(name)}: {why}. Leave it out.")
    if requested.seed < 0:
        raise UsageError("--seed -1: give the first seed, 0 or a larger number.")
    wrong = "total_envs" if mode == "weak" else "num_envs"
    right = "num_envs" if mode == "weak" else "total_envs"
    if options.get(wrong) is not None:
        raise UsageError(
            f"--mode {mode} and {flag(wrong)} contradict each other. Give {flag(right)} N, or "
            f"--mode {'strong' if mode == 'weak' else 'weak'}."
        )


def _nodes(most: int, counts: Sequence[int]) -> dict[int, int]:
    """Return on how many nodes each number of ranks runs: a node is filled before the next."""
    each = -(-counts[-1] // most)
    nodes = {count: -(-count // each) for count in counts}
    for count, number in nodes.items():
        if count % number:
            raise UsageError(
                f"--ranks {count}: cannot be divided over {number} nodes of {each} ranks. Leave it "
                "out, or change --nnodes."
            )
    return nodes


def _plan(options: Mapping[str, Any], ranks: int) -> Plan:
    try:
        plan = make_plan(options)
    except UsageError as error:
        raise UsageError(f"--ranks {ranks}: {error}") from error
    config = plan.config
    if plan.world is not None:
        raise UsageError(
            f"rltrain scale starts all ranks itself, and was itself started by {config.cluster}. "
            "Start it once, without a launcher; or run each number of ranks as your cluster does, "
            "and compare the runs by rltrain scale --runs RUN..."
        )
    count = config.nproc_per_node
    if config.gpu_ids and isinstance(count, int) and count > len(config.gpu_ids):
        raise UsageError(
            f"--ranks {ranks}: --nproc-per-node {count}: only "
            f"{len(config.gpu_ids)} GPU(s), and ranks that share one say nothing about speed. "
            "Leave it out."
        )
    if config.nnodes > 1 and not plan.starts_nodes:
        raise UsageError(
            f"--nnodes {config.nnodes}: on several nodes, rltrain scale needs a launcher that "
            "starts all of them, such as --launcher slurm. Otherwise run each number of ranks by "
            "hand, and compare the runs by rltrain scale --runs RUN..."
        )
    total = plan.iteration.iterations if plan.iteration else config.max_iterations
    if total is None and config.target_return is None:
        raise UsageError(
            f"The options of {config.library} do not say when a run ends. Give --max-iterations N "
            "or --target-return R."
        )
    return plan


def _name(config: Any, mode: str) -> str:
    label = "".join(letter if letter.isalnum() else "-" for letter in config.task)
    return f"scale/{config.library}_{label}_{mode}"


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Return options as words."""
    return [
        word
        for name, value in options.items()
        for word in ([flag(name)] if value is True else [flag(name), str(value)])
    ]
