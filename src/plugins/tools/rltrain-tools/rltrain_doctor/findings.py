"""The findings of the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    """What was found."""
    hint: str = ""
    """What the user can do about it."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The details, for programs."""

    def as_json(self) -> dict[str, Any]:
        """Return the finding as a JSON-serializable dict."""
        shown = {"level": self.level, "name": self.name, "text": self.text, "hint": self.hint}
        return {**shown, **self.data}


@dataclass(frozen=True)
class Section:
    """One section of the report."""

    title: str
    findings: tuple[Finding, ...]


def output_lines(data: Mapping[str, Any]) -> list[str]:
    """Return a rank's output in the details of a finding; none of one line, which the text has."""
    lines = str(data.get("error") or "").strip().splitlines()
    return lines if len(lines) > 1 else []


def ok(name: str, text: str, **data: Any) -> Finding:
    """Return a finding that is no cause for concern."""
    return Finding("ok", name, text, "", data)


def warning(name: str, text: str, hint: str, **data: Any) -> Finding:
    """Return a finding that affects some runs."""
    return Finding("warning", name, text, hint, data)


def problem(name: str, text: str, hint: str, **data: Any) -> Finding:
    """Return a finding that affects every run."""
    return Finding("problem", name, text, hint, data)


def look(title: str, check: Callable[[], Iterable[Finding]]) -> Section:
    """Run a check. If it raises, that is a finding too, and the other checks still run."""
    try:
        return Section(title, tuple(check()))
    except RltrainError as error:
        return Section(title, (problem(title.lower(), str(error), ""),))
    except Exception as error:
        text = f"could not be checked: {type(error).__name__}: {error}"
        return Section(title, (warning(title.lower(), text, "This is a bug in rltrain."),))
