"""The findings of the checks, and how they are printed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rltrain.errors import RltrainError
from rltrain.terminal import plain, raw

Level = Literal["ok", "warning", "problem"]

LINES = 15
"""Maximum number of lines shown of a rank's output."""

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    level: Level
    """ok; warning: some runs will fail or be slow; problem: no run can be expected to work."""
    name: str
    """What was checked."""
    text: str
    hint: str = ""
    """What the user can do about it."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The details, for programs."""

    def as_json(self) -> dict[str, Any]:
        """Return the finding as a JSON-serializable dict."""
        shown = {"level": self.level, "name": self.name, "text": self.text, "hint": self.hint}
        return {**shown, **self.data}

    @property
    def output(self) -> list[str]:
        """A rank's output in the details; none of one line, which the text has."""
        lines = str(self.data.get("error") or "").strip().splitlines()
        return lines if len(lines) > 1 and self.level != "ok" else []


def ok(name: str, text: str, **data: Any) -> Finding:
    """Return a finding that is no cause for concern."""
    return Finding("ok", name, text, "", data)


def warning(name: str, text: str, hint: str, **data: Any) -> Finding:
    """Return a finding that affects some runs."""
    return Finding("warning", name, text, hint, data)


def problem(name: str, text: str, hint: str, **data: Any) -> Finding:
    """Return a finding that affects every run."""
    return Finding("problem", name, text, hint, data)


def run_check(title: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Run a check. If it raises, that is a finding too, and the other checks still run."""
    try:
        return list(check())
    except RltrainError as error:
        return [problem(title.lower(), str(error), "")]
    except Exception as error:
        text = f"could not be checked: {type(error).__name__}: {error}"
        return [warning(title.lower(), text, "This is a bug in rltrain.")]


def print_section(title: str, findings: Iterable[Finding]) -> None:
    """Print one section as a table without rules."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=raw(sys.stdout), highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(width=7)
    table.add_column(max_width=20)
    table.add_column(overflow="fold")
    output: list[str] = []
    for finding in findings:
        level = Text(finding.level, _STYLES[finding.level])
        table.add_row(level, Text(plain(finding.name)), Text(plain(finding.text)))
        if finding.hint and finding.level != "ok":
            table.add_row("", "", Text(plain(f"-> {finding.hint}")))
        output += finding.output[-LINES:]
    console.print(Text(plain(title), "bold"))
    console.print(table)
    for line in output:
        console.print(Text(plain(f"    {line}")), soft_wrap=True)
    console.print()


def print_summary(findings: Iterable[Finding]) -> None:
    """Print the numbers of problems and warnings, and the verdict."""
    levels = [finding.level for finding in findings]
    problems, warnings = levels.count("problem"), levels.count("warning")
    counts = ", ".join(
        f"{number or 'no'} {what}{'' if number == 1 else 's'}"
        for number, what in ((problems, "problem"), (warnings, "warning"))
    )
    verdict = "A run will not work as it is." if problems else "A run can be expected to work."
    print(f"{counts[0].upper()}{counts[1:]}. {verdict}")
