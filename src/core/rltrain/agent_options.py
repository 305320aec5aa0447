"""A library's own options: its file or its defaults, with dotted overrides, never remodelled."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rltrain.config import RunConfig, load_yaml
from rltrain.errors import UsageError, suggest
from rltrain.plugins import Registry
from rltrain.specs import LibrarySpec, SuiteSpec
from rltrain.types import TaskInfo

__all__ = [
    "MANY_ENVS",
    "default_options",
    "flatten",
    "get_dotted",
    "get_positive_int",
    "leaves",
    "load_agent",
    "overlaid",
    "override_agent",
    "parse_override",
    "resolve_env",
    "set_child",
    "set_dotted",
    "unknown_env_option",
]

_OVERRIDE = re.compile(r"(?P<add>\+?)(?P<where>agent|env)\.(?P<key>[^=]*)=(?P<value>.*)", re.DOTALL)


def parse_override(token: str) -> tuple[str, str, Any] | None:
    """Read an override such as `agent.params.config.gamma=0.98` or `+env.mass=2`.

    Returns:
        ("agent" or "env", the key with its "+", the value as YAML reads it), or None if the token
        is no override.

    Raises:
        UsageError: the key is empty or the value does not parse.
    """
    match = _OVERRIDE.fullmatch(token)
    if match is None:
        return None
    from omegaconf import OmegaConf

    key = match["key"]
    if not key or any(not part for part in key.split(".")):
        raise UsageError(f"{token}: the key is not complete; write `agent.some.key=value`.")
    try:
        value = OmegaConf.to_container(OmegaConf.create(f"value: {match['value']}"))["value"]  # type: ignore[index,call-overload]
    except Exception as error:
        raise UsageError(f"{token}: the value does not parse as YAML: {error}") from error
    return match["where"], match["add"] + key, value


def default_options(
    library: LibrarySpec, suite: SuiteSpec, task: TaskInfo, algorithm: str, framework: str
) -> tuple[dict[str, Any], str]:
    """Return the suite's options for a task, or the library's own, and in words whose they are."""
    tuned = suite.tuned(task, library.name, algorithm) if suite.tuned else None
    if tuned is None:
        options, whose = (
            library.default_agent(task, algorithm),
            f"{library.name}'s defaults for {task.name}",
        )
    else:
        options, whose = tuned, f"those of the suite {suite.name} for {task.name}"
    said = library.in_framework.get(framework)
    return copy.deepcopy(dict(said(options) if said else options)), whose


def load_agent(
    config: RunConfig, library: LibrarySpec, suite: SuiteSpec, task: TaskInfo, registry: Registry
) -> tuple[dict[str, Any], str]:
    """Return a library's options before overrides, and in words where they come from.

    Raises:
        UsageError: the user's file is wrong or another library's.
    """
    if config.agent_config is not None:
        options = load_yaml(config.agent_config, "--agent-config")
        _check_format(options, config.agent_config, library, registry)
        return options, config.agent_config
    return default_options(library, suite, task, config.algorithm or "", config.framework)


def override_agent(
    options: dict[str, Any], overrides: Mapping[str, Any], library: LibrarySpec, source: str
) -> None:
    """Lay the user's overrides over a library's options, in place.

    Raises:
        UsageError: an override names no option, or a section of the options is no mapping.
    """
    # A copy: a later override may reach into the value of an earlier one, which is the caller's.
    for key, value in flatten(copy.deepcopy(dict(overrides)), known=options):
        if key.startswith("+"):
            set_dotted(options, key[1:], value)
            continue
        known = {name for name, _ in flatten(options)} | library.option_keys
        if key not in library.option_keys and get_dotted(options, key) is _MISSING:
            raise UsageError(
                f"agent.{key}: no such option in {source}.{_suggest_key(key, known)} To add it, "
                f"write +agent.{key}=..."
            )
        set_dotted(options, key, value)
    _check_sections(options, library)


def resolve_env(task: TaskInfo, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task's options, nested; check the keys where the suite declared them.

    Raises:
        UsageError: a key is none of the declared ones.
    """
    options: dict[str, Any] = {}
    for key, value in flatten(copy.deepcopy(dict(overrides))):
        name = key.removeprefix("+")
        if task.options is not None and name not in task.options and not key.startswith("+"):
            known = ", ".join(sorted(task.options)) or "none"
            raise UsageError(
                f"env.{name}: the task {task.name} has no such option."
                f"{suggest(name, task.options)} Its options: {known}."
            )
        set_dotted(options, name, value)
    return options


_MISSING = object()


def get_dotted(options: Any, key: str, default: Any = _MISSING) -> Any:
    """Return the value at a dotted key; parts that are numbers index lists."""
    for part in key.split("."):
        if isinstance(options, Mapping) and part in options:
            options = options[part]
        elif isinstance(options, list) and part.isdigit() and int(part) < len(options):
            options = options[int(part)]
        else:
            return default
    return options


def set_dotted(options: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at a dotted key, making the mappings on the way.

    Raises:
        UsageError: the key leads past the end of a list, or into a value that has no parts.
    """
    *parents, last = key.split(".")
    node: Any = options
    for part in parents:
        child = get_dotted(node, part, None)
        if child is None and isinstance(node, dict):
            child = node[part] = {}
        node = child
    if isinstance(node, dict):
        node[last] = value
    elif isinstance(node, list) and last.isdigit() and int(last) < len(node):
        node[int(last)] = value
    else:
        raise UsageError(
            f"{key}: cannot be set: the options have a list that is shorter, or a plain value, at "
            f"{'.'.join(parents)}. Set that one as a whole."
        )


def overlaid(options: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with others laid over them, mapping by mapping; lists are replaced whole."""
    result = dict(options)
    for name, value in over.items():
        below = result.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            result[name] = overlaid(below, value)
        else:
            result[name] = copy.deepcopy(value)
    return result


def flatten(
    options: Mapping[str, Any], prefix: str = "", known: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) for every leaf.

    Args:
        options: nested or dotted; both may be mixed.
        prefix: put before each key.
        known: if given, a mapping that replaces something in it that is not a mapping is a leaf.
    """
    for name, value in options.items():
        key = f"{prefix}{name}"
        replaces = known is not None and not isinstance(get_dotted(known, key, {}), Mapping)
        if isinstance(value, Mapping) and value and not replaces:
            yield from flatten(value, f"{key}.", known)
        else:
            yield key, value
        if known is None and isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, Mapping):
                    yield from flatten(item, f"{key}.{index}.")


def _check_sections(options: Mapping[str, Any], library: LibrarySpec) -> None:
    """Check that what has options of the library's below it is a mapping, or is left out."""
    for key in sorted({*library.option_keys, *library.required_keys}):
        parts = key.split(".")
        for end in range(1, len(parts)):
            section = ".".join(parts[:end])
            value = get_dotted(options, section, None)
            if value is not None and not isinstance(value, Mapping):
                raise UsageError(
                    f"agent.{section}={value}: must be a mapping, for the library reads agent.{key}"
                    f" below it. Set agent.{key}=... instead."
                )


def _suggest_key(key: str, known: set[str]) -> str:
    """Suggest a whole key; a last part that is unique is enough of a hint."""
    last = key.rsplit(".", 1)[-1]
    same = sorted(name for name in known if name.rsplit(".", 1)[-1] == last)
    if len(same) == 1:
        return f" Did you mean 'agent.{same[0]}'?"
    return suggest(f"agent.{key}", [f"agent.{name}" for name in known])


def _check_format(
    options: Mapping[str, Any], path: str, library: LibrarySpec, registry: Registry
) -> None:
    """Tell a file of this library's format from another's."""
    missing = [key for key in library.required_keys if get_dotted(options, key) is _MISSING]
    if not missing:
        return
    others = [
        spec.name
        for spec in registry.all(LibrarySpec)
        if spec.name != library.name
        and all(get_dotted(options, key) is not _MISSING for key in spec.required_keys)
    ]
    hint = f" It looks like a file of {others[0]}: try --library {others[0]}." if others else ""
    raise UsageError(
        f"--agent-config {path}: this is not a file of {library.name}, whose options include "
        f"{', '.join(missing)}.{hint}"
    )


MANY_ENVS = 64
"""From this number of environments per rank on, a library's defaults take short rollouts: they
learn faster than the long ones that few environments need."""


def get_positive_int(agent: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """Return the agent option at a dotted key.

    Raises:
        UsageError: it is not an integer, or smaller than 1.
    """
    value = get_dotted(agent, key, default)
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"agent.{key}={value}: must be a whole number, at least 1.")
    return value


def leaves(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) for every value that is not a mapping; lists are values."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def set_child(node: Any, name: str, value: Any) -> None:
    """Set a child of a node in a suite's tree of `env.` options.

    Args:
        node: a dict, whose keys need not be strings, a list, or an object with attributes.
        name: an existing key, the index of an item, or an attribute, as the user writes it.
        value: the new value.
    """
    if isinstance(node, dict):
        node[next(key for key in node if str(key) == name)] = value
    elif isinstance(node, list):
        node[int(name)] = value
    else:
        setattr(node, name, value)


def unknown_env_option(task: str, key: str, known: Iterable[str]) -> UsageError:
    """Return the error for an `env.` option that a task does not have.

    Args:
        task: the task's name.
        key: the dotted key.
        known: dotted keys that the task has, at least those beside this one.
    """
    names = list(known)
    return UsageError(
        f"env.{key}: the task {task} has no such option.{suggest(key, names)} "
        f"Its options: {', '.join(names) or 'none'}."
    )
