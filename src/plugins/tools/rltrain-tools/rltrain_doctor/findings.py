"""The findings of the checks, and how they are printed."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rltrain.errors import RltrainError

Level = Literal["ok", "warning", "problem"]


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


def print_section(title: str, findings: Sequence[Finding]) -> None:
    """Print one section, wrapped to the terminal's width, and the end of ranks' output."""
    print(title)
    columns = shutil.get_terminal_size().columns
    names = max(len(finding.name) for finding in findings)
    for finding in findings:
        head = f"{finding.level:8} {finding.name:{names}}  "
        hint = f"-> {finding.hint}" if finding.hint and finding.level != "ok" else ""
        for first, text in ((head, finding.text), (" " * len(head), hint)):
            wrap = textwrap.TextWrapper(
                columns, first, " " * len(head), break_on_hyphens=False, tabsize=1
            )
            print(*wrap.wrap(text), sep="\n", end="\n" if text else "")
    for finding in findings:
        for line in finding.output[-15:]:
            print(f"    {line}")
    print()


def print_summary(findings: Iterable[Finding]) -> None:
    """Print the numbers of problems and warnings, and the verdict."""
    levels = [finding.level for finding in findings]
    works = "problem" not in levels
    verdict = "A run can be expected to work." if works else "A run will not work as it is."
    print(f"Problems: {levels.count('problem')}, warnings: {levels.count('warning')}. {verdict}")
