"""Where a plugin's class breaks the hook contract: one that is loaded, or one that is only read.

A plan must import no framework. What it does not find loaded, it reads from the sources.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import inspect
import pkgutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from rltrain.errors import PluginError, suggest
from rltrain.hookspecs import RunHooks


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
    wanted = [x.name for x in given if x.default is x.empty and x.kind <= x.POSITIONAL_OR_KEYWORD]
    # What pluggy's marker leaves there.
    return Method(_without_self(wanted), getattr(function, "rltrain_impl", None))


def _without_self(names: list[str]) -> tuple[str, ...]:
    return tuple(names[1:] if names[:1] in (["self"], ["cls"]) else names)


def breaches(face: Face, requires: Iterable[str] = (), hooks: type = RunHooks) -> Iterator[str]:
    """Yield where the hook contract is broken, and what to do, each in a line."""
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


def of_observer(plugin: object) -> Iterator[str]:
    """Yield what else is wrong with an observer's hooks: it answers for no other plugin."""
    marked = {name: x.marks for name, x in face_of(plugin).methods.items() if x.marks is not None}
    if not marked:
        yield "it implements no hook with @rltrain.hookimpl."
    for name, marks in marked.items():
        rules = getattr(getattr(RunHooks, name, None), "rltrain_spec", None) or {}
        if rules.get("firstresult") and not marks.get("wrapper"):
            yield f"{name}: another plugin answers: wrap it, with @rltrain.hookimpl(wrapper=True)."


def read_face(path: str, requires: Collection[str] = ()) -> Face | None:
    """Return what the class of an import string implements; None if its sources do not say."""
    module, colon, name = path.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise PluginError(f"{path!r} must be written package.module:Class.")
    if (loaded := sys.modules.get(module)) is not None:
        if name in vars(loaded):
            found = vars(loaded)[name]
            return face_of(found) if isinstance(found, type) else None
        known, are_all = set(vars(loaded)), not hasattr(loaded, "__getattr__")
    else:
        if (tree := _tree(module)) is None:
            return None
        _check_imports(module)
        known = {name for node in _statements(tree.body) for name in _bound(node)}
        are_all = not {"*", "__getattr__"} & known
        if are_all and name in known:
            return _in_tree(module, tree, name, requires)
    if are_all:
        raise PluginError(f"{path!r}: {module} has no {name}.{suggest(name, known)} Correct it.")
    return None


def _in_tree(module: str, tree: ast.Module, name: str, requires: Collection[str]) -> Face | None:
    """Return what a class of a module implements; None if it is no class, or in a package."""
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom) and name in _bound(node):
            (there,) = [each.name for each in node.names if name in (each.asname, each.name)]
            origin = _origin(module, node)
            return read_face(f"{origin}:{there}", requires) if origin else None
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _of_class(module, tree, node, requires)
    return None


def _of_class(module: str, tree: ast.Module, node: ast.ClassDef, requires: Collection[str]) -> Face:
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    face = Face({each.name: _method(each) for each in functions})
    if node.decorator_list:  # Of a dataclass.
        face.methods.setdefault("__init__", Method((), None))
    for base in node.bases:
        if all(name in face.methods for name in requires):  # No further base is read.
            face.whole = False
            break
        found = None
        if isinstance(base, ast.Name):
            with contextlib.suppress(PluginError):  # Its own module is not the plugin's concern.
                found = _in_tree(module, tree, base.id, requires)
        found = found or Face(whole=False)
        face = Face({**found.methods, **face.methods}, face.whole and found.whole)
    return face


def _method(node: ast.FunctionDef) -> Method:
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    wanted = _without_self(names[: len(names) - len(node.args.defaults)])
    # Whatever decorates it may be the marker under another name.
    calls = [each for each in node.decorator_list if isinstance(each, ast.Call)]
    given = [word for call in calls for word in call.keywords]
    marks = {str(x.arg): x.value.value for x in given if isinstance(x.value, ast.Constant)}
    return Method(wanted, marks if node.decorator_list else None)


def imported(module: str) -> list[str]:
    """Return what a module imports first of all, as its sources say."""
    names: list[str | None] = []
    tree = _tree(module)
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(_origin(module, node))
    return [name for name in names if name]


def _check_imports(module: str) -> None:
    """Raise `PluginError` for what a module imports first of all, and cannot."""
    for name in imported(module):
        top = name.partition(".")[0]
        own = top == module.partition(".")[0]
        try:
            find_module(name if own else top)
        except PluginError as error:
            lacking = "which is not installed. Install it, and name it among the dependencies."
            told = f": {error}" if own else f", {lacking}"
            raise PluginError(f"{module} imports {name}{told}") from error


def _origin(module: str, node: ast.ImportFrom) -> str | None:
    """Return the module that `from ... import` names; None where it is above all packages."""
    spec = find_module(module)
    with contextlib.suppress(ImportError):
        name = "." * node.level + (node.module or "")
        return importlib.util.resolve_name(name, spec.parent if spec is not None else None)
    return None


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield a module's statements, those in `if`, `try` and `with` too."""
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.ExceptHandler, ast.For, ast.While)):
            yield from _statements(ast.iter_child_nodes(node))


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {each.asname or each.name.partition(".")[0] for each in node.names}
    stored = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in stored if isinstance(each.ctx, ast.Store)}


@functools.lru_cache
def _tree(module: str) -> ast.Module | None:
    """Return the syntax tree of a module; None if it is not made of Python sources."""
    spec = find_module(module)
    if spec is None or not spec.has_location or not str(spec.origin).endswith(".py"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of escapes that are not the user's.
            return ast.parse(Path(str(spec.origin)).read_bytes())
    except SyntaxError as error:
        where = f"{spec.origin}, line {error.lineno}"
        raise PluginError(f"{module} cannot be imported: {error.msg} ({where}).") from error
    except (OSError, ValueError):
        return None


def find_module(module: str) -> ModuleSpec | None:
    """Find a module without importing it or its packages; None if it is loaded, or of no file."""
    if module in sys.modules:
        return sys.modules[module].__spec__
    spec = places = None
    parent, _, name = module.rpartition(".")
    if not parent:
        spec = importlib.util.find_spec(module)
    elif (package := find_module(parent)) is None:  # Loaded, and made by a program.
        return None
    elif (places := package.submodule_search_locations) is not None:
        spec = PathFinder.find_spec(module, places)
    if spec is None:
        siblings = [each.name for each in pkgutil.iter_modules(places)] if places else []
        raise PluginError(
            f"there is no module {module}.{suggest(name, siblings)} Correct the name, or add it "
            "to the distribution."
        )
    return spec
