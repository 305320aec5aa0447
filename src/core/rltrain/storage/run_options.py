"""The options in a run folder. They are data, whoever wrote them: see docs/trust.md.

Numbers and switches are taken, and text of which the option says that it is only a label or a word
(`rltrain.options.naming`). What may name a program, code, a path or an address is not, unless the
user says --trust.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from rltrain.config.checks import flag
from rltrain.config.declare import NAMES, Scope, scoped
from rltrain.errors import UsageError
from rltrain.files.dotted import flatten, texts
from rltrain.files.reading import Unreadable, read_text, real
from rltrain.files.secrets import HIDDEN
from rltrain.files.yaml import LARGEST, load_yaml, parse_yaml
from rltrain.options.run import RunOptions, by_plugin
from rltrain.plugins.options import dataclass_of
from rltrain.plugins.registry import Registry
from rltrain.storage.run_folder import task_folder
from rltrain.terminal import note

_HOW = "If it is yours, or you trust who wrote it, add --trust"
_SECTIONS = ("agent", "env")
_WORD = re.compile(r"(\w[\w-]*)?|(cpu|cuda)(:\d+)?|[+-]?[\d.]+(e[+-]?\d+)?", re.ASCII)
_SHOWN = 60
"""Characters of a value in a message."""


def run_folder_of(path: str | Path) -> Path | None:
    """Return the run folder in which a file of options lies: of rltrain, Isaac Lab or mjlab."""
    for each in (Path(os.path.abspath(os.path.expanduser(path))), real(path)):
        folder = each.parent
        both = [(folder / name).is_file() for name in ("config.yaml", "agent.yaml")]
        others = folder.name == "params" and each.name == "agent.yaml"
        if others or all(both) or (folder / "manifest.json").is_file():
            return folder
    return None


def read_file(folder: Path, path: str | Path, option: str, trusted: bool) -> dict[str, Any]:
    """Return the options in a file of a run folder, which `option` has named."""
    if trusted:
        return load_yaml(str(path), option)
    try:
        text = read_text(Path(path), LARGEST, folder)
    except OSError as error:
        how = f" {_HOW}." if isinstance(error, Unreadable) else ""
        raise UsageError(f"{option} {path}: {error.strerror}.{how}") from error
    options = parse_yaml(text, str(path), option)
    for key, value in texts(options):
        if "${" in value:
            raise UsageError(
                f"{option} {path}: {key!a} has an interpolation, {shortened(value)}, which is "
                f"not resolved from a run folder: rltrain writes none. {_HOW}."
            )
    return options


def check_inside(run: Path, path: Path, trusted: bool, instead: str = _HOW) -> None:
    """Refuse to write where a link leads out of a run folder; `instead` says what to do."""
    if not trusted and not real(path).is_relative_to(real(run)):
        raise UsageError(f"{path}: is a link out of {run}. {instead}.")


def take(
    run: Path,
    saved: Mapping[str, Any],
    given: Mapping[str, Any],
    registry: Registry,
    tell: Callable[[str], None] = note,
) -> dict[str, Any]:
    """Return those options of a run folder that are taken, plugins' by dotted key.

    `tell` gets a line on those that are not, unless the user's own, which are `given`, replace
    them. What may name code or a path instead of a task, or in its options, is refused.
    """
    trusted, source = bool(given.get("trust")), str(run / "config.yaml")
    replaced = {key.removeprefix("plugins.") for key, _ in flatten(given)} | set(given)
    taken: dict[str, Any] = {}
    left: dict[str, str] = {}
    for name, value, declared in _declared(saved, registry):
        hidden = any(HIDDEN in text for _, text in texts([value]))  # It must be given again.
        if not hidden and (trusted or _is_safe(value, declared)):
            taken[name] = value
        elif name not in replaced and not any(value == each.default for each in declared):
            shown = ascii(name)[1:-1]
            left[name] = f"{f'{shown}=' if '.' in name else f'{flag(shown)} '}{shortened(value)}"
    if "checkpoint" in left:  # Without it, another policy would be trained.
        raise UsageError(
            f"{source}: the run began from {shortened(saved['checkpoint'])}. A path is not taken "
            f"from a run folder. {_HOW}; or give --checkpoint yourself."
        )
    task = saved.get("task")
    if ":" in str(task) and not trusted and given.get("task") is None:
        raise UsageError(
            f"{source}: the task {shortened(task)} imports a module, which is not taken from a run "
            f"folder. {_HOW}; or give it yourself: --task {shlex.quote(shortened(task)[1:-1])}."
        )
    parent = run.resolve().parent
    root = str(parent.parent.parent)
    if task_folder(root, str(saved.get("library")), str(task)) == parent:  # It was not moved.
        left.pop("log_root", None)
        named = str(saved.get("log_root"))
        taken["log_root"] = named if real(named) == Path(root) else root
    for name in _SECTIONS:
        options = saved.get(name) or {}
        if not isinstance(options, Mapping):
            raise UsageError(f"{source}: {name}: must be a mapping, not {shortened(options)}.")
        if not trusted:
            check_texts(name, options, source, given.get(name) or {})
        if options:
            taken[name] = dict(options)
    if left:
        how = f"Give it again; or, {_HOW[0].lower()}{_HOW[1:]}"
        tell(
            f"not taken from {run}, as it may name a program, code, a path or an address, or hides "
            f"a secret: {', '.join(left.values())}. {how}."
        )
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
                f"{source}: {section}.{ascii(key)[1:-1]}={shortened(text)} may name code, a "
                f"program or a path, which is not taken from a run folder. {_HOW}; or give "
                f"{section}.KEY=VALUE for it yourself."
            )


def is_word(text: str) -> bool:
    """Return whether a text is a single word, a number, or the name of a device."""
    return _WORD.fullmatch(text) is not None and "__" not in text


def shortened(value: Any) -> str:
    """Return a value for a message, whatever it holds."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _is_safe(value: Any, declared: list[Field[Any]]) -> bool:
    """Return whether a value is a number or a switch, or text of a label, on one line."""
    labels = bool(declared) and all(each.metadata.get(NAMES) == "text" for each in declared)
    return bool(declared) and all(labels and text.isprintable() for _, text in texts([value]))


def _declared(
    saved: Mapping[str, Any], registry: Registry
) -> Iterator[tuple[str, Any, list[Field[Any]]]]:
    """Yield name and value of each option, plugins' by dotted key, and the fields that declare it.

    Those are several where plugins have a name in common, such as a backend and its launcher.
    """
    of_run = {each.name: each for each in fields(RunOptions)}
    given = saved.get("plugins")
    sections = dict(given) if isinstance(given, Mapping) else {}
    apart = ("plugins", *scoped(RunOptions, Scope.COMMAND), *_SECTIONS)
    for name, value in saved.items():
        if name not in of_run and (isinstance(value, Mapping) or "." in name):
            sections[name] = value
        elif name not in apart:
            yield name, value, [of_run[name]] if name in of_run else []
    for section, options in by_plugin(sections).items():
        specs = [spec for each in registry.records for spec in each.specs if spec.name == section]
        classes = [dataclass_of(spec) for spec in specs if spec.options is not None]
        for key, value in flatten(options):
            option = key.partition(".")[0]  # Its value may be a mapping.
            yield (
                f"{section}.{key}",
                value,
                [each for cls in classes for each in fields(cls) if each.name == option],
            )
