"""A library's own options, in its own format: a file or its defaults, with dotted overrides."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.files.dotted import MISSING, flatten, get_dotted, set_dotted, texts
from rltrain.files.yaml import in_short, load_yaml, loaded
from rltrain.options.agent_checks import (
    check_choices,
    check_keys,
    check_kinds,
    check_sections,
    without_effect,
)
from rltrain.plugins.registry import Registry
from rltrain.specs import LibrarySpec, SuiteSpec
from rltrain.types import TaskInfo

_OVERRIDE = re.compile(
    r"(?P<add>\+?)(?P<where>[A-Za-z_][\w-]*)\.(?P<key>[^=]*)=(?P<value>.*)", re.DOTALL
)

_TIME = re.compile(r"\d+(:\d\d){1,2}")
"""Such as 4:00:00, which YAML 1.1 reads as a number to the base of 60."""


def parse_override(token: str) -> tuple[str, str, Any] | None:
    """Read an override such as `agent.params.config.gamma=0.98`, `+env.mass=2` or `csv.flush=10`.

    Returns "agent", "env" or a plugin's name; the key with its "+"; the value, parsed as YAML.
    """
    match = _OVERRIDE.fullmatch(token)
    if match is None:
        return None
    from omegaconf import OmegaConf

    key = match["key"]
    if not key or any(not part for part in key.split(".")):
        raise UsageError(f"{token}: the key is not complete; write `agent.some.key=value`.")
    if _TIME.fullmatch(match["value"]):
        return match["where"], match["add"] + key, match["value"]
    try:
        found: Any = OmegaConf.to_container(loaded(f"value: {match['value']}"))
        value = found["value"]
    except Exception as error:
        text = f"{token}: the value does not parse as YAML: {in_short(error)}"
        raise UsageError(text) from error
    if any("${" in each for _, each in texts(value)):
        raise UsageError(f"{token}: interpolations are resolved in files alone. Write the value.")
    return match["where"], match["add"] + key, value


def default_options(
    library: LibrarySpec, suite: SuiteSpec, task: TaskInfo, algorithm: str, framework: str
) -> tuple[dict[str, Any], str]:
    """Return the suite's options for a task, or the library's defaults; describe their source."""
    tuned = suite.tuned(task, library.name, algorithm) if suite.tuned else None
    if tuned is None:
        options = library.default_agent(task, algorithm)
        source = f"{library.name}'s defaults for {task.name}"
    else:
        which = f"{task.agent} " if task.agent else ""
        options, source = tuned, f"those {which}of the suite {suite.name} for {task.name}"
    convert = library.convert_defaults.get(framework)
    return copy.deepcopy(dict(convert(options) if convert else options)), source


def load_agent(
    path: str | None,
    library: LibrarySpec,
    algorithm: str,
    framework: str,
    suite: SuiteSpec,
    task: TaskInfo,
    registry: Registry,
    load: Callable[[str, str], dict[str, Any]] = load_yaml,
) -> tuple[dict[str, Any], str]:
    """Return a library's options before overrides, and describe their source."""
    if path is not None:
        options = load(path, "--agent-config")
        _check_format(options, path, library, registry)
        return dict(library.read_file(options)), path
    return default_options(library, suite, task, algorithm, framework)


def override_agent(
    options: dict[str, Any],
    overrides: Mapping[str, Any],
    library: LibrarySpec,
    source: str,
    defaults: Mapping[str, Any],
    trained_before: bool = False,
) -> list[str]:
    """Apply a user's overrides to a library's options; return lines on those without effect.

    Options that a run has trained with before are not checked again: some may have been added by +.
    """
    added = {key[1:] for key, _ in flatten(overrides) if key.startswith("+")}
    ignored = library.schema.ignored(options)
    # Copy: a later override may change the value of an earlier one, which belongs to the caller.
    for key, value in flatten(copy.deepcopy(dict(overrides)), known=options):
        if key.startswith("+"):
            set_dotted(options, key[1:], value)
            continue
        sections = library.schema.keys(options).items()
        taken = (f"{section}.{name}".lstrip(".") for section, x in sections for name in x.known)
        declared = {*library.schema.also, *ignored, *taken}
        if key not in declared and get_dotted(options, key) is MISSING:
            known = {name for name, _ in flatten(options)} | declared
            raise UsageError(
                f"agent.{key}: no such option in {source}.{_suggest_key(key, known)} To add it, "
                f"write +agent.{key}=..."
            )
        if key in ignored and not ignored[key].if_typed and value not in (None, *ignored[key].off):
            raise UsageError(f"agent.{key}={value}: not read here. {ignored[key].instead}")
        set_dotted(options, key, value)
    check_sections(options, library, defaults)
    if trained_before:
        return []
    schema = library.schema
    unknown = check_keys(options, library, schema.keys(options), added)
    if schema.check_types:
        check_kinds(options, defaults, added)
    check_choices(options, library, schema.choices(options), added)
    typed = {key.removeprefix("+") for key, _ in flatten(overrides)}
    return [*unknown, *without_effect(options, ignored, typed)]


def resolve_env(task: TaskInfo, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task's options, nested; refuse a key that is not among those that it declares."""
    for key, _ in flatten(overrides):
        name = key.removeprefix("+")
        if task.options is not None and name not in task.options and not key.startswith("+"):
            known = ", ".join(sorted(task.options)) or "none"
            raise UsageError(
                f"env.{name}: the task {task.name} has no such option."
                f"{suggest(name, task.options)} Its options: {known}."
            )
    return nested_env(overrides)


def nested_env(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `env.` options nested, without the "+" of added ones."""
    options: dict[str, Any] = {}
    for key, value in flatten(copy.deepcopy(dict(overrides))):
        set_dotted(options, key.removeprefix("+"), value)
    return options


def _suggest_key(key: str, known: set[str]) -> str:
    """Suggest a whole key: the one with the same last part if it is unique, else a similar one."""
    last = key.rsplit(".", 1)[-1]
    same = sorted(name for name in known if name.rsplit(".", 1)[-1] == last)
    if len(same) == 1:
        return f" Did you mean 'agent.{same[0]}'?"
    near = difflib.get_close_matches(last, {name.rsplit(".", 1)[-1] for name in known}, 9)
    alike = (name for name in known if name.rsplit(".", 1)[-1] in near)
    return suggest(f"agent.{key}", [f"agent.{name}" for name in alike])


def _missing(file: Mapping[str, Any], library: LibrarySpec) -> list[str]:
    options = library.read_file(file)
    return [key for key in library.schema.required if get_dotted(options, key) is MISSING]


def libraries_of(options: Mapping[str, Any], registry: Registry) -> str:
    """Return the names of the libraries in whose format options are, with "or" between them."""
    return " or ".join(
        spec.name
        for spec in registry.all(LibrarySpec)
        if spec.schema.required and not _missing(options, spec)
    )


def _check_format(
    options: Mapping[str, Any], path: str, library: LibrarySpec, registry: Registry
) -> None:
    """Check that a file is in this library's format."""
    missing = _missing(options, library)
    if not missing:
        return
    others = libraries_of(options, registry)
    hint = f" It looks like a file of {others}: try --library {others}." if others else ""
    if "defaults" in options:  # Hydra's list of files.
        hint += " It takes options from other files by `defaults`: give one that has them all."
    raise UsageError(
        f"--agent-config {path}: this is not a file of {library.name}, whose options include "
        f"{', '.join(missing)}.{hint}"
    )
