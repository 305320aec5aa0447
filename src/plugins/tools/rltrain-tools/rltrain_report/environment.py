"""Where runs ran, by which commands, and with which versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rltrain.runs import Run, common_folder
from rltrain_report.page import Folded, Quoted, Section, Table, Text


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
    shown = "\n".join(filter(None, commands))
    base = common_folder([run.path for run in runs])
    blocks: list[Any] = [Text([f"The run folders are in {base}."])] if base else []
    blocks += [Table(head, rows, numbers=(3,)), *([Quoted(shown)] if shown else [])]
    each_run = [run.manifest.get("versions") for run in runs]
    versions = [found if isinstance(found, dict) else {} for found in each_run]
    different = list({repr(sorted(each.items())): each for each in versions if each}.values())
    if different:
        names = sorted({name for each in different for name in each})
        table = Table(
            ("package", *(_with(runs, versions, each) for each in different)),
            [(name, *(str(each.get(name, "")) for each in different)) for name in names],
        )
        text = "Versions" + ("" if len(different) == 1 else ", which differ between runs")
        blocks.append(Folded(text, [table]))
    return Section("Environment and versions", blocks, "environment")


def _with(runs: Sequence[Run], versions: Sequence[Any], one: Any) -> str:
    """Return the names of the runs with these versions."""
    names = [run.name for run, each in zip(runs, versions, strict=True) if each == one]
    return "all runs" if len(names) == len(runs) else ", ".join(names)
