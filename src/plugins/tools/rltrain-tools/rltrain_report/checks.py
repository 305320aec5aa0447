"""What a report says of a run's divergence checks, warnings and end."""

from __future__ import annotations

from collections.abc import Sequence

from rltrain.runs import Run
from rltrain_report.page import Quoted, Table, Text

_DIVERGED = "DivergenceError"
_MOST_WARNINGS = 30


def check_blocks(runs: Sequence[Run]) -> list[Text | Table]:
    """Return how often ranks were checked to be equal, and with what result."""
    rows, broken, checked = [], [], 0
    for run in runs:
        every = run.config.get("check_interval")
        every = every if isinstance(every, int) else None
        ended = run.metrics.ended
        failed = ended is not None and (ended.error or "").startswith(_DIVERGED)
        if run.metrics.started.world_size == 1:
            rows.append((run.name, "0", "-", "one rank: there is nothing to compare"))
            continue
        counts = [each.iteration for each in run.scalars]
        passed = sum(count % every == 0 or count == counts[0] for count in counts if every)
        at_end = ended is not None and ended.error is None
        result = "all passed" if passed + at_end else "none was due yet"
        if failed:
            result = "the last one failed: the ranks had diverged"
            broken.append(run.name)
        how = "not known" if every is None else f"first, every {every} iterations" if every else ""
        how = ", ".join(filter(None, [how, "at the end" if at_end else ""]))
        checked += passed + at_end + failed
        rows.append((run.name, str(passed + at_end + failed), how, result))
    if broken:
        lead = Text([f"The ranks of {', '.join(broken)} have diverged."], "bad")
    elif checked:
        lead = Text(
            [
                "All ranks held the same parameters, optimizer state and statistics in each of "
                f"the {checked} checks that were made."
            ],
            "good",
        )
    else:
        lead = Text(["No check was made."])
    return [lead, Table(("run", "checks", "when", "result"), rows, numbers=(1,))]


def warning_blocks(runs: Sequence[Run]) -> list[Text | Quoted]:
    """Return each run's warnings and its error; an empty list if there are none."""
    blocks: list[Text | Quoted] = []
    for run in runs:
        ended = run.metrics.ended
        error = [] if ended is None or ended.error is None else [f"It ended by {ended.error}"]
        told = [f"iteration {each.iteration}: {each.text}" for each in run.metrics.warnings]
        lines = [*told[-_MOST_WARNINGS:], *run.restarts(), *error]
        if lines:
            blocks += [Text([run.name], "bad" if error else "plain"), Quoted("\n".join(lines))]
    return blocks
