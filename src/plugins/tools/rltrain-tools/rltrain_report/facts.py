"""What a report says of runs in addition to curves: checks, warnings, evaluations, versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rltrain.runs import Run, common_folder
from rltrain_play import read_evaluations
from rltrain_report.numbers import number
from rltrain_report.page import Folded, Quoted, Section, Table, Text


def check_blocks(runs: Sequence[Run]) -> list[Text]:
    """Return whether ranks were found to be equal."""
    checked = [
        run
        for run in runs
        if run.metrics.started.world_size > 1 and run.config.get("check_interval") != 0
    ]
    if not checked:
        return [
            Text(["No check was made: one rank has nothing to compare, or --check-interval 0."])
        ]
    errors = {run.name: run.metrics.ended.error if run.metrics.ended else "" for run in checked}
    diverged = [name for name, error in errors.items() if (error or "").startswith("Divergence")]
    if diverged:
        return [Text([f"The ranks of {', '.join(diverged)} have diverged."], "bad")]
    text = "All ranks held the same parameters, optimizer state and statistics in every check"
    return [Text([f"{text} of {', '.join(errors)}."], "good")]


def warning_blocks(runs: Sequence[Run]) -> list[Text | Quoted]:
    """Return each run's warnings and its error; an empty list if there are none."""
    blocks: list[Text | Quoted] = []
    for run in runs:
        ended = run.metrics.ended
        error = [] if ended is None or ended.error is None else [f"It ended by {ended.error}"]
        warnings = [f"iteration {each.iteration}: {each.text}" for each in run.metrics.warnings]
        lines = [*warnings[-30:], *run.restarts(), *error]
        if lines:
            blocks += [Text([run.name], "bad" if error else "plain"), Quoted("\n".join(lines))]
    return blocks


def evaluation_blocks(runs: Sequence[Run]) -> list[Any]:
    """Return a table of what `rltrain evaluate` found; nothing if it was not used."""
    rows = []
    for run in runs:
        for each in read_evaluations(run.path):
            other = each.task not in ("", run.config.get("task", each.task))
            bounded = (
                f"{number(mean)} ({' to '.join(map(number, bounds))})"
                for mean, bounds in (
                    (each.returns, each.returns_interval),
                    (each.iqm, each.iqm_interval),
                )
            )
            rows.append(
                (
                    run.name,
                    f"{each.checkpoint}, on {each.task}" if other else each.checkpoint,
                    f"{each.episodes:,}",
                    " ".join(map(str, each.seeds)),
                    *bounded,
                    number(each.length),
                    "-" if each.success is None else f"{each.success:.1%}",
                    each.time.replace("T", " ")[:16],
                )
            )
    head = ("run", "checkpoint", "episodes", "seeds", "return", "IQM", "length", "success", "on")
    note = (
        "Episodes of the policy alone, after training, with 95 % bootstrap intervals. The "
        "interquartile mean (IQM) is that of the middle half of the episodes."
    )
    return [Table(head, rows, numbers=(2, 4, 5, 6, 7)), Text([note])] if rows else []


def environment_section(runs: Sequence[Run]) -> Section:
    """Return where runs ran, by which commands, and with which versions."""
    rows = [
        (
            run.name,
            run.metrics.started.time.strftime("%Y-%m-%d %H:%M"),
            str(run.manifest.get("host", "not known")),
            f"{run.metrics.started.num_nodes}",
            str(run.config.get("backend", "-")),
            str(run.config.get("device_kind", "-")),
        )
        for run in runs
    ]
    head = ("run", "began", "host of rank 0", "nodes", "backend", "device")
    commands = dict.fromkeys(str(run.manifest.get("command", "")) for run in runs)
    base = common_folder([run.path for run in runs])
    blocks: list[Any] = [Text([f"The run folders are in {base}."])] if base else []
    blocks.append(Table(head, rows, numbers=(3,)))
    if shown := "\n".join(filter(None, commands)):
        blocks.append(Quoted(shown))
    found = [run.manifest.get("versions") for run in runs]
    versions = [each if isinstance(each, dict) else {} for each in found]
    if any(versions):
        names = sorted({name for each in versions for name in each})
        table = {
            name: list(dict.fromkeys(str(each.get(name, "-")) for each in versions))
            for name in names
        }
        rows_ = [(name, ", ".join(values)) for name, values in table.items()]
        blocks.append(Folded("Versions", [Table(("package", "version"), rows_)]))
    return Section("Environment and versions", blocks, "environment")
