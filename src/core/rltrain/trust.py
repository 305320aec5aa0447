"""What is taken from a run folder. It is data, whoever wrote it: see docs/trust.md.

Numbers and switches are taken, and text of which the option says that it is only a label or a word
(`rltrain.options.naming`). What names a program, code, a path or an address is not, unless the user
says --trust.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import shlex
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rltrain.config.checks import flag
from rltrain.config.declare import NAMES, Scope, scoped
from rltrain.config.options import Unset
from rltrain.errors import UsageError
from rltrain.files.dotted import flatten, texts
from rltrain.files.reading import real
from rltrain.files.run_files import HOW, shortened
from rltrain.files.secrets import HIDDEN
from rltrain.options.run import RunOptions, by_plugin
from rltrain.plugins.options import dataclass_of
from rltrain.plugins.registry import Registry
from rltrain.storage.run_folder import task_folder
from rltrain.terminal import note

_SECTIONS = ("agent", "env")
"""Options that are looked at apart."""

_WHAT = {"command": "a command", "path": "a path", "code": "code", "host": "an address"}

_PLAIN = (bool, int, float, types.NoneType, Unset)
_WORD = re.compile(r"(\w[\w-]*)?|(cpu|cuda)(:\d+)?|[+-]?[\d.]+(e[+-]?\d+)?", re.ASCII)


def take(
    run: Path,
    saved: Mapping[str, Any],
    given: Mapping[str, Any],
    registry: Registry,
    tell: Callable[[str], None] = note,
) -> dict[str, Any]:
    """Return those options of a run folder that are taken, plugins' by dotted key.

    What the user's own, which are `given`, replace is not looked at. `tell` gets a line on those
    that are not taken. What may name code or a path instead of a task, or in its options, is
    refused.
    """
    trusted, source = bool(given.get("trust")), str(run / "config.yaml")
    replaced = {key.removeprefix("plugins.") for key, _ in flatten(given)} | set(given)
    taken: dict[str, Any] = {}
    left: dict[str, str] = {}
    for name, value, fields in _declared(saved, registry):
        refused = next(filter(None, (_refused(value, *field) for field in fields)), None)
        why = None if trusted else refused if fields else "not known here"
        if any(HIDDEN in text for _, text in texts([value])):
            why = "a secret in it was hidden"
        if why is None:
            taken[name] = value
        elif name not in replaced and not any(value == _default(field) for field, _ in fields):
            typed = f"{_shown(name)}=" if "." in name else f"{flag(_shown(name))} "
            left[name] = f"{typed}{shortened(value)} ({why})"
    if (root := _home(run.resolve(), saved)) is not None:
        taken["log_root"] = root
        left.pop("log_root", None)
    if "checkpoint" in left:  # Without it, another policy would be trained.
        raise UsageError(
            f"{source}: the run began from {shortened(saved['checkpoint'])}. A path is not taken "
            f"from a run folder. {HOW}; or give --checkpoint yourself."
        )
    for name in _SECTIONS:
        options = saved.get(name) or {}
        if not isinstance(options, Mapping):
            raise UsageError(f"{source}: {name}: must be a mapping, not {shortened(options)}.")
        if not trusted:
            check_texts(name, options, source, given.get(name) or {})
        if options:
            taken[name] = dict(options)
    if not trusted:
        _check_task(source, saved.get("task"), given)
    if left:
        how = f"Give it again; or, {HOW[0].lower()}{HOW[1:]}"
        tell(f"not taken from {run}: {', '.join(left.values())}. {how}.")
    return taken


def check_texts(
    section: str,
    options: Mapping[str, Any],
    source: str,
    given: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    harmless: Callable[[str, str], bool] | None = None,
) -> None:
    """Refuse options of a library or a task that may name code, a program or a path.

    They are not left out: another thing would be trained. The user's own, which are `given` by
    dotted key or nested, replace them; `defaults` are on this machine already.
    """
    known = set(texts(defaults or {}))
    replaced = tuple(key.removeprefix("+") for key, _ in flatten(given))
    for key, text in texts(options):
        if is_word(text) or (key, text) in known or (harmless and harmless(key, text)):
            continue
        if not any(key == other or key.startswith(f"{other}.") for other in replaced):
            raise UsageError(
                f"{source}: {section}.{_shown(key)}={shortened(text)} may name code, a program or "
                f"a path, which is not taken from a run folder. {HOW}; or give {section}.KEY=VALUE "
                "for it yourself."
            )


def is_word(text: str) -> bool:
    """Return whether a text is a single word, a number, or the name of a device."""
    return _WORD.fullmatch(text) is not None and "__" not in text


_Declared = tuple[dataclasses.Field[Any], Any]
"""An option's field, and its type."""


def _declared(
    saved: Mapping[str, Any], registry: Registry
) -> typing.Iterator[tuple[str, Any, list[_Declared]]]:
    """Yield name and value of each option, plugins' by dotted key, and what declares it.

    That is nothing for one that is not known, and several where plugins have a name in common,
    such as a backend and its launcher.
    """
    of_run = _fields(RunOptions)
    sections: dict[str, Any] = {}
    if isinstance(found := saved.get("plugins"), Mapping):
        sections |= found
    for name, value in saved.items():
        if name in of_run or (not isinstance(value, Mapping) and "." not in name):
            if name not in ("plugins", *scoped(RunOptions, Scope.COMMAND), *_SECTIONS):
                yield name, value, [of_run[name]] if name in of_run else []
        else:
            sections[name] = value
    for section, options in by_plugin(sections).items():
        specs = [spec for each in registry.records for spec in each.specs if spec.name == section]
        fields = [_fields(dataclass_of(spec)) for spec in specs if spec.options is not None]
        for key, value in flatten(options):
            option = key.partition(".")[0]  # Its value may be a mapping.
            yield f"{section}.{key}", value, [each[option] for each in fields if option in each]


def _fields(cls: type[Any]) -> dict[str, _Declared]:
    """Return the fields of a dataclass of options."""
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # It may name what only a type checker imports.
        hints = {}
    return {each.name: (each, hints.get(each.name, str)) for each in dataclasses.fields(cls)}


def _refused(value: Any, field: dataclasses.Field[Any], hint: Any) -> str | None:
    """Return what an option's value names, so that it is not taken; None if it is."""
    if _is_plain(hint):
        return None
    names = field.metadata.get(NAMES)
    if names != "text":
        return _WHAT.get(str(names), "its plugin does not say what it names")
    return None if all(text.isprintable() for _, text in texts([value])) else "not on one line"


def _is_plain(hint: Any) -> bool:
    """Return whether all values of a type are numbers, switches or words of a closed set."""
    if hint in _PLAIN or (isinstance(hint, type) and issubclass(hint, enum.Enum)):
        return True
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return True
    composed = (typing.Union, types.UnionType, list, tuple, set, frozenset)
    return origin in composed and all(part is ... or _is_plain(part) for part in parts)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _home(run: Path, saved: Mapping[str, Any]) -> str | None:
    """Return the log root in which the run folder still lies."""
    library, task, named = (str(saved.get(name)) for name in ("library", "task", "log_root"))
    root = run.parents[min(2, len(run.parents) - 1)]
    if run.parent != task_folder(str(root), library, task):
        return None
    return named if real(named) == root else str(root)


def _check_task(source: str, task: Any, given: Mapping[str, Any]) -> None:
    if ":" in str(task) and given.get("task") is None:
        typed = shlex.quote(shortened(task)[1:-1])
        raise UsageError(
            f"{source}: the task {shortened(task)} imports a module, which is not taken "
            f"from a run folder. {HOW}; or give it yourself: --task {typed}."
        )


def _shown(key: str) -> str:
    return ascii(key)[1:-1]
