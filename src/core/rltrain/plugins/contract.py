"""Where a plugin's class breaks the hook contract."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rltrain.errors import suggest
from rltrain.hookspecs import RunHooks

__all__ = ["Face", "Method", "breaches", "face_of", "without_self"]


@dataclass(frozen=True)
class Method:
    """A method, as far as hooks are concerned."""

    arguments: tuple[str, ...]
    """Those that a caller must give."""
    marks: Mapping[str, Any] | None
    """What `@hookimpl` is given; None without it."""


@dataclass
class Face:
    """What a class implements."""

    methods: dict[str, Method] = field(default_factory=dict)
    whole: bool = True
    """Whether these are all: a base class may be one that cannot be read."""


def face_of(plugin: Any) -> Face:
    """Return what an object, a class or a module implements that is loaded."""
    named = {name: inspect.getattr_static(plugin, name, None) for name in dir(plugin)}
    methods = {name: getattr(x, "__func__", x) for name, x in named.items()}
    return Face({name: _loaded(x) for name, x in methods.items() if inspect.isfunction(x)})


def _loaded(function: Callable[..., Any]) -> Method:
    given = inspect.signature(function).parameters.values()
    wanted = (x.name for x in given if x.default is x.empty and x.kind <= x.POSITIONAL_OR_KEYWORD)
    # What pluggy's marker leaves there.
    return Method(without_self(wanted), getattr(function, "rltrain_impl", None))


def without_self(names: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments that a caller gives."""
    found = tuple(names)
    return found[1:] if found[:1] in (("self",), ("cls",)) else found


def breaches(face: Face, requires: Iterable[str] = (), hooks: type = RunHooks) -> Iterator[str]:
    """Yield where the hook contract is broken, and what to do, each in a line.

    Args:
        face: what is implemented.
        requires: what must be.
        hooks: the hooks that there are.
    """
    known = {name: _loaded(x).arguments for name, x in vars(hooks).items() if inspect.isfunction(x)}
    done = set()
    for method, found in face.methods.items():
        marks = found.marks or {}
        name = marks.get("specname") or method
        done.add(name)
        if not name.startswith("rltrain_") or marks.get("optionalhook"):
            continue
        if name not in known:
            hint = suggest(name, known)
            done |= {each for each in known if f"'{each}'" in hint}
            yield f"{name}: is no hook.{hint or ' There are ' + ', '.join(known) + '.'}"
        elif found.marks is None:
            yield f"mark {name} with @rltrain.hookimpl, or it is never called."
        for wrong in [x for x in found.arguments if x not in known.get(name, found.arguments)]:
            yield (
                f"{name}: is not given {wrong!r}.{suggest(wrong, known[name])} Its arguments are "
                f"{', '.join(known[name]) or 'none'}."
            )
    required = tuple(requires)
    for name in (each for each in required if face.whole and each not in done):
        mark = " with @rltrain.hookimpl" if name in known else ""
        yield f"implement {name}{mark}. Required: {', '.join(required)}."
