"""What a plugin's module declares."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

import pluggy

from rltrain.dialects import Dialect
from rltrain.errors import PluginError
from rltrain.hookspecs import API_LEVEL, DeclarationHooks
from rltrain.plugins.contract import breaches, face_of
from rltrain.plugins.installed import InstalledPlugin, adapted
from rltrain.specs import KINDS, LibrarySpec, Spec

__all__ = ["UnmetLevel", "declarations", "heavy_for", "hooks_of"]

HEAVY = {"gymnasium", "jax", "numpy", "torch"}
"""What a plugin's module must not import, besides the library that it adapts."""

_NAME = re.compile(r"[A-Za-z0-9][\w-]*")


class UnmetLevel(PluginError):
    """A plugin needs a later API than this one."""


@functools.lru_cache
def hooks_of(plugin: InstalledPlugin) -> Any:
    """Import a plugin's module and return the callers of its hooks."""
    found = plugin.load()
    if (level := getattr(found, "rltrain_api", 0)) > API_LEVEL:
        has = f"but the installed rltrain has {API_LEVEL}: pip install --upgrade rltrain"
        raise UnmetLevel(f"needs rltrain_api = {level}, {has}")
    for broken in breaches(face_of(found), hooks=DeclarationHooks):
        raise PluginError(broken)
    manager = pluggy.PluginManager("rltrain")
    manager.add_hookspecs(DeclarationHooks)
    manager.register(found, name=plugin.name)
    if not manager.get_hookcallers(found):
        raise PluginError(
            f"the entry point names {plugin.point.value!r}, which has no rltrain_provides: name "
            "the module whose function has this name and @rltrain.hookimpl"
        )
    return manager.hook


@functools.lru_cache
def declarations(plugin: InstalledPlugin) -> tuple[tuple[Spec, ...], tuple[str, ...]]:
    """Return a plugin's declared specs, and what heavy was imported; it is asked once."""
    absent = [name for name in sorted(heavy_for(plugin)) if name not in sys.modules]
    hooks = hooks_of(plugin)
    specs: list[Spec] = []
    for provided in hooks.rltrain_provides():
        if isinstance(provided, Spec):
            raise PluginError(f"rltrain_provides must return a list; got the {provided.kind} alone")
        # Consume generators here, so that their errors count as the plugin's.
        specs.extend(provided)
    wrong = [spec for spec in specs if not isinstance(spec, tuple(KINDS.values()))]
    dialects = hooks.rltrain_dialect()
    if wrong or not (specs or dialects):
        what = f"got {wrong[0]!r}" if wrong else "got none"
        raise PluginError(f"rltrain_provides must return specs from rltrain.specs; {what}")
    for spec in specs:
        _check_spec(spec)
    if not all(isinstance(each, Dialect) for each in dialects):
        raise PluginError(f"rltrain_dialect must return a rltrain.dialects.Dialect; got {dialects}")
    return tuple(specs), tuple(name for name in absent if name in sys.modules)


def heavy_for(plugin: InstalledPlugin) -> set[str]:
    """Return what a plugin's module must not import."""
    return HEAVY | {each.name.replace("-", "_") for each in adapted(plugin.requires)}


def _check_spec(spec: Spec) -> None:
    """Refuse a spec whose fields are of the wrong type.

    Raises:
        PluginError: one is.
    """
    if not isinstance(spec.name, str) or not _NAME.fullmatch(spec.name):
        raise PluginError(
            f"a {spec.kind}'s name must be a word of letters, digits, '-' and '_', which users "
            f"type; not {spec.name!r}"
        )
    for name in ("frameworks", "algorithms", "required_keys"):
        if not isinstance(value := getattr(spec, name, ()), (tuple, list, set, frozenset)):
            raise PluginError(f"{spec.name}: {name} must be a tuple, such as ({value!r},)")
    if isinstance(spec, LibrarySpec) and not (spec.algorithms and spec.frameworks):
        raise PluginError(f"{spec.name}: a library must name its algorithms and its frameworks")
    for name in ("describe", "tasks"):
        if not callable(value := getattr(spec, name, len)):
            raise PluginError(f"{spec.name}: {name} must be a function, not {value!r}")
    if not isinstance(spec.summary, str):
        raise PluginError(f"{spec.name}: summary must be text, not {spec.summary!r}")
