"""The report that `rltrain doctor` prints, section by section."""

from __future__ import annotations

import sys

from rltrain.terminal import plain, raw
from rltrain_doctor.findings import Finding, Section, output_lines

LINES = 15
"""Maximum number of lines shown of a rank's output."""

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def print_section(section: Section) -> None:
    """Print one section as a table without rules."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=raw(sys.stdout), highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(width=7)
    table.add_column(max_width=20)
    table.add_column(overflow="fold")
    for finding in section.findings:
        level = Text(finding.level, _STYLES[finding.level])
        table.add_row(level, Text(plain(finding.name)), Text(plain(finding.text)))
        if finding.hint and finding.level != "ok":
            table.add_row("", "", Text(plain(f"-> {finding.hint}")))
    console.print(Text(plain(section.title), "bold"))
    console.print(table)
    for finding in section.findings:
        for line in _details(finding):
            console.print(Text(plain(f"    {line}")), soft_wrap=True)
    console.print()


def print_summary(sections: list[Section]) -> None:
    """Print the numbers of problems and warnings, and the verdict."""
    levels = [finding.level for section in sections for finding in section.findings]
    problems, warnings = levels.count("problem"), levels.count("warning")
    counts = f"{_count(problems, 'problem')}, {_count(warnings, 'warning')}."
    verdict = "A run will not work as it is." if problems else "A run can be expected to work."
    print(f"{counts[0].upper()}{counts[1:]} {verdict}")


def _details(finding: Finding) -> list[str]:
    """Return the end of a rank's output, if it has more than one line."""
    if finding.level == "ok":
        return []
    return output_lines(finding.data)[-LINES:]


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' if number != 1 else ''}"
