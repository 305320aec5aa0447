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
from rltrain.files.secrets.hiding import HIDDEN
from rltrain.options.run import RunOptions, by_plugin
from rltrain.plugins.options import dataclass_of
from rltrain.plugins.registry import Registry
from rltrain.storage.run_folder import task_folder

_SECTIONS = ("agent", "env")
"""Options that are looked at apart."""

_WHAT = {"command": "a command", "path": "a path", "code": "code", "host": "an address"}

_PLAIN = (bool, int, float, types.NoneType, Unset)
_WORD = re.compile(r"(\w[\w-]*)?|(cpu|cuda)(:\d+)?|[+-]?[\d.]+(e[+-]?\d+)?", re.ASCII)
Declared = tuple[dataclasses.Field[Any] | None, Any]
"""An option's field, and its type."""

_UNKNOWN: Declared = (None, None)


def take(
    run: Path, saved: Mapping[str, Any], given: Mapping[str, Any], registry: Registry
) -> dict[str, Any]:
    """Return those options of a run folder that are taken, plugins' by dotted key.

    Args:
        run: the run folder.
        saved: what its `config.yaml` says.
        given: the user's options, plugins' by dotted key. What these replace is not looked at.
        registry: the installed plugins, which say what their options name.

    Returns:
        The options. `left_out` describes those that are not taken.

    Raises:
        UsageError: the task or its options name what may be code or a path.
    """
    trusted, source = bool(given.get("trust")), str(run / "config.yaml")
    own, plugins = _separate(saved)
    of_run = _fields(RunOptions)
    declared = {name: of_run.get(name, _UNKNOWN) for name in own}
    for section in by_plugin(plugins):
        declared |= _of_plugins(section, registry)
    taken: dict[str, Any] = {}
    left: dict[str, tuple[Any, str]] = {}
    replaced = {key.removeprefix("plugins.") for key, _ in flatten(given)} | set(given)
    for name, value in {**own, **dict(flatten(by_plugin(plugins)))}.items():
        option = ".".join(name.split(".")[:2])  # Its value may be a mapping.
        field, hint = declared.get(option, _UNKNOWN)
        why = None if trusted else _refused(value, field, hint)
        if any(HIDDEN in text for _, text in texts([value])):
            why = "a secret in it was hidden"
        if why is None:
            taken[name] = value
        elif name not in replaced and (field is None or value != _default(field)):
            left[name] = (value, why)
    if (root := _home(run.resolve(), saved)) is not None:
        taken["log_root"] = root
        left.pop("log_root", None)
    if "checkpoint" in left:  # Without it, another policy would be trained.
        raise UsageError(
            f"{source}: the run began from {shortened(left['checkpoint'][0])}. A path is not taken "
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
    return {**taken, "left_out": _described(run, left)}


def check_texts(
    section: str,
    options: Mapping[str, Any],
    source: str,
    given: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    harmless: Callable[[str, str], bool] | None = None,
) -> None:
    """Refuse options of a library or a task that may name code, a program or a path.

    They are not left out: another thing would be trained.

    Args:
        section: "agent" or "env".
        options: from a run folder.
        source: where they are written.
        given: the user's own, by dotted key or nested, which replace them.
        defaults: options that are on this machine already.
        harmless: see `LibrarySpec.harmless`.
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


def _separate(saved: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the run's options, and the sections of plugins."""
    fields = {field.name for field in dataclasses.fields(RunOptions)}
    own: dict[str, Any] = {}
    sections: dict[str, Any] = {}
    for key, value in saved.items():
        name = key if isinstance(value, Mapping) else key.replace("-", "_")
        if name == "plugins" and isinstance(value, Mapping):
            sections |= value
        elif name not in fields and isinstance(value, Mapping):
            sections[name] = value
        elif "." in key:
            sections[key] = value
        elif name not in (*scoped(RunOptions, Scope.COMMAND), *_SECTIONS):
            own[name] = value
    return own, sections


def _fields(cls: type[Any], prefix: str = "") -> dict[str, Declared]:
    """Return the fields of a dataclass of options."""
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # It may name what only a type checker imports.
        hints = {}
    return {f"{prefix}{x.name}": (x, hints.get(x.name, str)) for x in dataclasses.fields(cls)}


def _of_plugins(section: str, registry: Registry) -> dict[str, Declared]:
    """Return the options of the plugins of a name.

    Of two plugins that both have an option, such as a backend and its launcher, the stricter one
    counts.
    """
    found: dict[str, Declared] = {}
    specs = [spec for record in registry.records for spec in record.specs if spec.name == section]
    for cls in (dataclass_of(spec) for spec in specs if spec.options is not None):
        for name, declared in _fields(cls, f"{section}.").items():
            if name not in found or _refused("", *found[name]) is None:
                found[name] = declared
    return found


def _refused(value: Any, field: dataclasses.Field[Any] | None, hint: Any) -> str | None:
    """Return what an option's value names, so that it is not taken; None if it is."""
    if field is None:
        return "not known here"
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


def _described(run: Path, left: Mapping[str, tuple[Any, str]]) -> tuple[str, ...]:
    if not left:
        return ()
    each = (
        f"{_shown(key)}={shortened(value)} ({why})"
        if "." in key
        else f"{flag(_shown(key))} {shortened(value)} ({why})"
        for key, (value, why) in left.items()
    )
    how = f"Give it again; or, {HOW[0].lower()}{HOW[1:]}"
    return (f"not taken from {run}: {', '.join(each)}. {how}.",)


def _shown(key: str) -> str:
    return ascii(key)[1:-1]
