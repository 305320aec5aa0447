"""How an option is declared, of the run or of another command: its scope; what its value names."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rltrain.config import checks
from rltrain.config.checks import Check

Names = Literal["text", "command", "path", "code", "host"]
"""What the value of an option names, which decides whether it is taken from a run folder."""

_METAVARS: dict[Names | None, str] = {"path": "FILE", "host": "HOST"}

_SEVERAL = ("values", "append", "more", "words")
"""Kinds of options that have several values."""

NAMES, SCOPE = "names", "scope"
"""The keys of a field's metadata that hold it, and the option's scope."""


class Scope(enum.Flag):
    """What an option is about. On all ranks, options are equal, but those of NODE and OUTPUT."""

    RUN = enum.auto()
    """What is learned: runs that differ in nothing of it are one group of a report."""
    AMOUNT = enum.auto()
    """How much of it, and from which seed."""
    START = enum.auto()
    """What starts and watches ranks."""
    NODE = enum.auto()
    """Of this node only."""
    RANKS = enum.auto()
    """Where ranks run: evaluate and doctor have it, too."""
    MEETING = enum.auto()
    """Which node this is, and where nodes meet: what starts all nodes sets it."""
    OUTPUT = enum.auto()
    """Where rank 0 writes."""
    KEPT = enum.auto()
    """What a policy still has of the run that trained it."""
    TAKEN = enum.auto()
    """What the user gives to play, evaluate and export again."""
    ORIGIN = enum.auto()
    """Where a run starts from; one that resumes another one does not inherit it."""
    COMMAND = enum.auto()
    """Of this command only: no run folder sets it."""
    USUAL = enum.auto()
    """Many users need it: `--help` shows it. `--help-all` shows all."""


@dataclass(frozen=True)
class Option:
    """An option's declaration, besides its name, type and default."""

    group: str
    """The group of `--help` in which it appears."""
    scope: Scope
    help: str
    """One line; the default is added to it."""
    check: Check
    """Returns the converted value, or raises `UsageError`."""
    metavar: str | None = None
    """How `--help` writes the value; None for a flag without one, and for no flag at all."""
    flags: tuple[str, ...] = ()
    """Further flags with the same meaning."""
    default_text: str = ""
    """Describes the default if it depends on something else."""
    kind: str = "value"
    """How the flag is typed: "value", "values" (one or more), "append" (may be repeated), "more"
    (both), "switch" (--x, --no-x, --x True, --x False), or "none"; "word" and "words" are typed
    without a flag."""
    required: bool = False
    replaces: tuple[str, ...] = ()
    """Options that say the same: of a file or of the run before, they give way."""
    resolved: Any = None
    """What a resolved run has if nothing chooses it."""


def naming(names: Names) -> dict[str, str]:
    """Return the metadata of a field of a plugin's options whose value is text, or has text in it.

    Numbers and switches are taken from any run folder, and text only if the plugin says that it is
    a label or one of its own words: `field(default=None, metadata=naming("text"))`. A "command",
    a "path", "code" (a module, a class, an expression) or a "host" to which the run connects is
    taken from the user alone, as is what a plugin does not declare.
    """
    return {NAMES: names}


@dataclass(frozen=True)
class Group:
    """A group of `--help`, in which options are declared."""

    title: str

    def option(
        self,
        default: Any,
        scope: Scope,
        help: str,
        check: Check | None = None,
        *,
        names: Names | None = None,
        **more: Any,
    ) -> Any:
        """Declare an option: text unless there is a `check`. `more` are fields of `Option`.

        Of text, `names` says what the value names; see `naming`.
        """
        more.setdefault("metavar", None if more.get("kind") else _METAVARS.get(names, "N"))
        usual = checks.names if more.get("kind") in _SEVERAL else checks.text
        declared = Option(self.title, scope, help, check or usual, **more)
        return settled(default, scope, {"option": declared, NAMES: names})

    def switch(self, scope: Scope, help: str, default: bool | None = False, **more: Any) -> Any:
        """Declare an option that is off, or not chosen, unless its flag is given."""
        return self.option(default, scope, help, checks.boolean, kind="switch", **more)

    def named(
        self, default: Any, scope: Scope, help: str, check: Check | None = None, **more: Any
    ) -> Any:
        """Declare an option whose value is a name."""
        return self.option(default, scope, help, check, metavar="NAME", names="text", **more)

    def number(
        self, default: int | None, scope: Scope, help: str, minimum: int, **more: Any
    ) -> Any:
        """Declare an option whose value is a whole number of at least `minimum`."""
        return self.option(default, scope, help, checks.integer(minimum), **more)

    def numbers(
        self, default: tuple[int, ...] | None, scope: Scope, help: str, minimum: int, **more: Any
    ) -> Any:
        """Declare an option whose values are such numbers."""
        check = checks.each(checks.integer(minimum))
        return self.option(default, scope, help, check, kind="values", **{"metavar": "N", **more})

    def choice(
        self, default: str | None, scope: Scope, help: str, words: Iterable[str], **more: Any
    ) -> Any:
        """Declare an option whose value is one of some words."""
        check, metavar = checks.one_of(*words), f"{{{','.join(words)}}}"
        return self.option(default, scope, help, check, metavar=metavar, names="text", **more)


def settled(default: Any, scope: Scope, metadata: Mapping[str, Any] | None = None) -> Any:
    """Declare a field of the resolved run; one that no user sets has no option."""
    metadata = {SCOPE: scope, **(metadata or {})}
    if default == {}:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def option_of(field: dataclasses.Field[Any]) -> Option:
    """Return the declaration of a field of `RunOptions`, or of a command's own options."""
    declared: Option = field.metadata["option"]
    return declared


def scoped(cls: type[Any], scope: Scope) -> list[str]:
    """Return the names of the fields that are of a scope, or of one of several."""
    return [each.name for each in dataclasses.fields(cls) if each.metadata[SCOPE] & scope]
