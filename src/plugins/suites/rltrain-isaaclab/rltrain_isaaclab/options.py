"""Applies the user's `env.` options to a task's configuration, as Hydra would."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.options import leaves
from rltrain.specs import load_object
from rltrain_adapters import drop_removed_options, set_child
from rltrain_isaaclab import compat, drawing

_OWN_FLAGS = {"scene.num_envs": "--num-envs", "sim.device": "--device", "seed": "--seed"}
"""Values that options of the run set, with their flags."""

_PRESETS = ("presets", "physics", "renderer")
"""Options of Isaac Lab 3's command line that are not part of the configuration."""

_PLAY = "play"
"""The option that asks for the configuration for playing."""

_LISTED = 30
"""The most names that an error message lists."""


def split(options: Mapping[str, Any], *names: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of the configuration, and those with the given names."""
    taken = {name: options[name] for name in names if options.get(name) is not None}
    return {name: value for name, value in options.items() if name not in names}, taken


def without_presets(options: Mapping[str, Any], task: str) -> tuple[dict[str, Any], list[str]]:
    """Split options into those of the configuration, and presets as Isaac Lab 3 takes them.

    A preset may also be chosen for one part: sim.physics=newton_mjwarp.
    """
    rest, own = split(options, *_PRESETS)
    presets = [f"{name}={_joined(value)}" for name, value in own.items()]
    texts = {key: value for key, value in leaves(rest) if isinstance(value, str)}
    known = compat.preset_paths(task) if texts else {}
    for key, value in texts.items():
        if value in known.get(key, ()):
            presets.append(f"env.{key}={value}")
            rest = _without(rest, key.split("."))
    return rest, presets


def _without(options: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return options without the one at a path."""
    if len(path) == 1:
        return {name: value for name, value in options.items() if name != path[0]}
    return {**options, path[0]: _without(options[path[0]], path[1:])}


def _joined(names: Any) -> str:
    return ",".join(str(name) for name in names) if isinstance(names, list) else str(names)


def configured(task: str, options: Mapping[str, Any], presets: Sequence[str]) -> Any:
    """Return a task's configuration with options set, and with presets; see `without_presets`.

    `play: true` takes the configuration for playing, with episodes as long as in training.
    """
    plays = options.get(_PLAY, False)
    if not isinstance(plays, bool):
        raise UsageError(f"env.{_PLAY}={plays!r}: must be true or false.")
    options, _ = split(options, _PLAY)
    cfg, _ = compat.load(task, presets=presets)
    if plays:
        training = copy.deepcopy(cfg)
        cfg = compat.played(task, cfg, presets)
        if cfg is None:
            raise UsageError(f"env.{_PLAY}=true: {compat.cannot_play(task, training)}.")
        cfg.episode_length_s = training.episode_length_s
        options = drop_removed_options(options, training, cfg, _parts)
    change(cfg, options, task)
    return cfg


def change(cfg: Any, options: Mapping[str, Any], task: str) -> None:
    """Set values of a configuration.

    A value must have the type of the one it replaces; null can replace any value, and any value
    can replace null. A function is given as "module:name".

    Args:
        cfg: Isaac Lab's configuration, changed in place.
        options: values nested like `cfg`; items of lists by their index.
        task: the task's name, for messages.
    """
    drawing.check(options)
    options, _ = split(options, *drawing.OPTIONS)
    for key, value in leaves(options):
        if key in _OWN_FLAGS:
            raise UsageError(f"env.{key}: the run sets this value. Give {_OWN_FLAGS[key]}.")
        *parents, last = key.split(".")
        node, path = cfg, ""
        for part in parents:
            node, path = _get(node, part, path, task), f"{path}{part}."
        new = _typed(_get(node, last, path, task), value, _declared(node, last), key, task)
        if isinstance(node, tuple):
            raise UsageError(f"env.{key}={new!r}: set a tuple as a whole, such as [1, 2].")
        set_child(node, last, new)


def _get(node: Any, name: str, path: str, task: str) -> Any:
    """Return a part of a configuration by its name."""
    if isinstance(node, (list, tuple)) and name.isdigit() and int(name) < len(node):
        return node[int(name)]
    parts = _parts(node)
    if name in parts:
        return parts[name]
    names = ", ".join(f"env.{path}{known}" for known in sorted(parts)[:_LISTED])
    known = f"Its options: {names}{', ...' if len(parts) > _LISTED else ''}." if names else ""
    hint = suggest(f"env.{path}{name}", [f"env.{path}{known}" for known in parts])
    raise UsageError(f"env.{path}{name}: the task {task} has no such option.{hint} {known}".strip())


def _parts(node: Any) -> dict[str, Any]:
    """Return the parts of a configuration by name; empty for plain values."""
    if isinstance(node, Mapping):
        return {str(name): part for name, part in node.items()}
    if not dataclasses.is_dataclass(node):
        return {}
    return {name: part for name, part in vars(node).items() if not name.startswith("_")}


def _declared(node: Any, name: str) -> str:
    """Return a part's type annotation as text, or "" if it has none."""
    fields = dataclasses.fields(node) if dataclasses.is_dataclass(node) else ()
    return next((str(field.type) for field in fields if field.name == name), "")


def _typed(current: Any, value: Any, declared: str, key: str, task: str) -> Any:
    """Return a value converted to the type of the one it replaces."""
    if value is None or current is None or isinstance(current, type(dataclasses.MISSING)):
        return value
    kind = type(current)
    if kind is int and "float" in declared:
        kind = float  # Many tasks write 5 for a time in s, which is a float.
    if isinstance(current, bool):
        fits = isinstance(value, bool)
    elif isinstance(current, (int, float)):
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        fits = fits and (kind is float or int(value) == value)
    elif isinstance(current, (list, tuple)):
        fits = isinstance(value, (list, tuple))
    elif isinstance(current, str):
        fits = isinstance(value, str)
    elif callable(current):
        if isinstance(value, str) and ":" in value:
            return load_object(value)
        fits, kind = False, type("function, written module:name", (), {})
    else:
        fits = False
    if not fits:
        parts = ", ".join(sorted(_parts(current))[:_LISTED])
        wanted = (
            f"has parts ({parts}); set one of them" if parts else f"must have type {kind.__name__}"
        )
        raise UsageError(f"env.{key}={value!r} (task {task}): {wanted}, or give null.")
    return kind(value)
