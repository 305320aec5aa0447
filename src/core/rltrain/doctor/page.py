"""The page that `rltrain doctor` prints, section by section, as they are done."""

from __future__ import annotations

from rltrain.doctor.findings import Finding, Section

__all__ = ["print_section", "print_summary"]

LINES = 15
"""Lines that are shown of what a rank said."""

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def print_section(section: Section) -> None:
    """Print one section as a table without rules."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(width=7)
    table.add_column(max_width=20)
    table.add_column(overflow="fold")
    for finding in section.findings:
        level = Text(finding.level, _STYLES[finding.level])
        table.add_row(level, Text(finding.name), Text(finding.text))
        if finding.hint and finding.level != "ok":
            table.add_row("", "", Text(f"-> {finding.hint}"))
    console.print(Text(section.title, "bold"))
    console.print(table)
    for finding in section.findings:
        for line in _details(finding):
            console.print(Text(f"    {line}"), soft_wrap=True)
    console.print()


def print_summary(sections: list[Section]) -> None:
    """Print what it comes to."""
    levels = [finding.level for section in sections for finding in section.findings]
    problems, warnings = levels.count("problem"), levels.count("warning")
    said = f"{_count(problems, 'problem')}, {_count(warnings, 'warning')}."
    verdict = "A run will not work as it is." if problems else "A run can be expected to work."
    print(f"{said[0].upper()}{said[1:]} {verdict}")


def _details(finding: Finding) -> list[str]:
    """Return the end of what a rank said, where that is more than a line."""
    if finding.level == "ok":
        return []
    lines = str(finding.data.get("error") or "").strip().splitlines()
    return lines[-LINES:] if len(lines) > 1 else []


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' if number != 1 else ''}"
