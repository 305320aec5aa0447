"""What a plugin's module declares."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import pluggy

from rltrain.dialects import Dialect
from rltrain.errors import PluginError, RltrainError, in_a_line
from rltrain.hookspecs import API_LEVEL, DeclarationHooks
from rltrain.plugins.contract import breaches
from rltrain.plugins.installed import InstalledPlugin, adapted
from rltrain.specs import KINDS, LibrarySpec, Spec

SpecT = TypeVar("SpecT", bound=Spec)

HEAVY = {"gymnasium", "jax", "numpy", "torch"}
"""What a plugin's module must not import, besides the library that it adapts."""

_NAME = re.compile(r"[A-Za-z0-9][\w-]*")


class UnmetLevel(PluginError):
    """A plugin needs a later API than this one."""


@functools.lru_cache
def hooks_of(plugin: InstalledPlugin) -> Any:
    """Import a plugin's module and return the callers of its hooks."""
    found = plugin.point.load() if plugin.given is None else plugin.given
    if (level := getattr(found, "rltrain_api", 0)) > API_LEVEL:
        has = f"but the installed rltrain has {API_LEVEL}: pip install --upgrade rltrain"
        raise UnmetLevel(f"needs rltrain_api = {level}, {has}")
    for broken in breaches(found, hooks=DeclarationHooks):
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
    heavy = tuple(name for name in absent if name in sys.modules)
    return tuple(_with_guards(spec, plugin) for spec in specs), heavy


def _with_guards(spec: SpecT, plugin: InstalledPlugin) -> SpecT:
    """Return a spec whose functions are guarded, wherever they are called."""
    label = f"The {spec.kind} {spec.name!r} of {plugin.distribution} {plugin.version}: its"
    remedy = f"Its author must mend it: --no-plugin {plugin.distribution} leaves it out."

    def guard(of: str, function: Any, hint: Any = None) -> Callable[..., Any]:
        return guarded(function, f"{label} {of}", remedy, _types_returned(hint))

    hints = get_type_hints(KINDS[spec.kind]).items()
    named = [(name, getattr(spec, name), hint) for name, hint in hints if "Callable[" in str(hint)]
    found: dict[str, Any] = {n: guard(f"{n}()", x, hint) for n, x, hint in named if callable(x)}
    if refuses := getattr(spec, "refuses", ()):
        made = (replace(x, applies=guard(f"refusal {x.name!r}", x.applies)) for x in refuses)
        found["refuses"] = tuple(made)
    return replace(spec, **found) if found else spec


def _types_returned(hint: Any) -> tuple[type, ...]:
    """Return what a function may return whose type, or None, is a field's; nothing for any."""
    for each in (hint, *get_args(hint)):
        if get_origin(each) is Callable:
            result = get_args(each)[1]
            parts = get_args(result) if isinstance(result, UnionType) else (result,)
            return tuple(get_origin(x) or x for x in parts if x is not bool)
    return ()


def guarded(
    function: Callable[..., Any], label: str, remedy: str = "", returns: tuple[type, ...] = ()
) -> Callable[..., Any]:
    """Return a plugin's function that names it where it raises, or returns what is wrong."""

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            answer = function(*given, **named)
            answer = list(answer) if isinstance(answer, Iterator) else answer
        except RltrainError:
            raise
        except Exception as error:
            if is_strict():
                raise
            text = f"{label} raises {in_a_line(error).rstrip('.')}. {remedy}"
            raise PluginError(text.rstrip()) from error
        if returns and not isinstance(answer, returns):
            *names, got = [x.__name__.removesuffix("Type") for x in (*returns, type(answer))]
            wanted = " or ".join(names)
            raise PluginError(f"{label} must return {wanted}, not {got}. {remedy}".rstrip())
        return answer

    return call


def is_strict(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether what a plugin raises is raised as it is, for its author."""
    return environ.get("RLTRAIN_STRICT", "0") not in ("", "0")


def heavy_for(plugin: InstalledPlugin) -> set[str]:
    """Return what a plugin's module must not import."""
    return HEAVY | {each.name.replace("-", "_") for each in adapted(plugin.requires, plugin.name)}


def _check_spec(spec: Spec) -> None:
    """Refuse a spec whose fields are of the wrong type."""
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
