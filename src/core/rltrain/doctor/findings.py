"""What a check found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rltrain.errors import RltrainError

__all__ = ["Finding", "Level", "Section", "look", "ok", "problem", "warning"]

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One line of the page."""

    level: Level
    """ok; warning: some runs will fail, or be slow; problem: no run can be expected to work."""
    name: str
    """What was looked at."""
    text: str
    """What was found."""
    hint: str = ""
    """What to do about it."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same for programs."""

    def as_json(self) -> dict[str, Any]:
        """Return what JSON can carry."""
        told = {"level": self.level, "name": self.name, "text": self.text, "hint": self.hint}
        return {**told, **self.data}


@dataclass(frozen=True)
class Section:
    """One section of the page."""

    title: str
    findings: tuple[Finding, ...]


def ok(name: str, text: str, **data: Any) -> Finding:
    """Return a finding that is as it should be."""
    return Finding("ok", name, text, "", data)


def warning(name: str, text: str, hint: str, **data: Any) -> Finding:
    """Return a finding that spoils some runs."""
    return Finding("warning", name, text, hint, data)


def problem(name: str, text: str, hint: str, **data: Any) -> Finding:
    """Return a finding that spoils every run."""
    return Finding("problem", name, text, hint, data)


def look(title: str, check: Callable[[], Iterable[Finding]]) -> Section:
    """Make a check; one that fails is a finding too, and spares the others."""
    try:
        return Section(title, tuple(check()))
    except RltrainError as error:
        return Section(title, (problem(title.lower(), str(error), ""),))
    except Exception as error:
        said = f"could not be looked at: {type(error).__name__}: {error}"
        return Section(title, (warning(title.lower(), said, "This is a fault of rltrain's."),))
