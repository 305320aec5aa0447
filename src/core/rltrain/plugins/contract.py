"""Where a plugin breaks the hook contract."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rltrain.errors import suggest
from rltrain.hookspecs import RunHooks


def breaches(plugin: Any, requires: Iterable[str] = (), hooks: type = RunHooks) -> Iterator[str]:
    """Yield where an object, a class or a module breaks it, and what to do, each in a line."""
    known = {name: _arguments(x) for name, x in vars(hooks).items() if inspect.isfunction(x)}
    done = set()
    for method, function in _methods(plugin).items():
        is_marked, marks = _marks(function) is not None, _marks(function) or {}
        name = marks.get("specname") or method
        done.add(name)
        if not name.startswith("rltrain_") or marks.get("optionalhook"):
            continue
        if name not in known:
            hint = suggest(name, known)
            done |= {each for each in known if f"'{each}'" in hint}
            yield f"{name}: is no hook.{hint or ' There are ' + ', '.join(known) + '.'}"
            continue
        if not is_marked:
            yield f"mark {name} with @rltrain.hookimpl, or it is never called."
        for wrong in [x for x in _arguments(function) if x not in known[name]]:
            yield (
                f"{name}: is not given {wrong!r}.{suggest(wrong, known[name])} Its arguments are "
                f"{', '.join(known[name]) or 'none'}."
            )
    required = tuple(requires)
    for name in (each for each in required if each not in done):
        mark = " with @rltrain.hookimpl" if name in known else ""
        yield f"implement {name}{mark}. Required: {', '.join(required)}."


def of_observer(plugin: object) -> Iterator[str]:
    """Yield what else is wrong with an observer's hooks: it answers for no other plugin."""
    found = {name: _marks(function) for name, function in _methods(plugin).items()}
    marked = {name: marks for name, marks in found.items() if marks is not None}
    if not marked:
        yield "it implements no hook with @rltrain.hookimpl."
    for name, marks in marked.items():
        rules = getattr(getattr(RunHooks, name, None), "rltrain_spec", None) or {}
        if rules.get("firstresult") and not marks.get("wrapper"):
            yield f"{name}: another plugin answers: wrap it, with @rltrain.hookimpl(wrapper=True)."


def _methods(plugin: Any) -> dict[str, Callable[..., Any]]:
    named = {name: inspect.getattr_static(plugin, name, None) for name in dir(plugin)}
    methods = {name: getattr(x, "__func__", x) for name, x in named.items()}
    return {name: x for name, x in methods.items() if inspect.isfunction(x)}


def _arguments(function: Callable[..., Any]) -> list[str]:
    """Return what a caller must give, without the object itself."""
    given = inspect.signature(function).parameters.values()
    names = [x.name for x in given if x.default is x.empty and x.kind <= x.POSITIONAL_OR_KEYWORD]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def _marks(function: Callable[..., Any]) -> Mapping[str, Any] | None:
    """Return what `@hookimpl` was given, where pluggy's marker leaves it; None without it."""
    found: Mapping[str, Any] | None = getattr(function, "rltrain_impl", None)
    return found
