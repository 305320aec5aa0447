"""Reads what a plugin's class implements from its sources: a plan must import no framework."""

from __future__ import annotations

import ast
import functools
import importlib.util
import pkgutil
import sys
import warnings
from collections.abc import Collection, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from rltrain.errors import PluginError, suggest
from rltrain.plugins.contract import Face, Method, face_of, without_self

__all__ = ["find_module", "imported", "read_face"]


def read_face(path: str, requires: Collection[str] = ()) -> Face | None:
    """Return what the class of an import string implements; None if its sources do not say.

    Args:
        path: "package.module:Class".
        requires: base classes are read until these have been found.

    Raises:
        PluginError: it cannot be imported; the message says why.
    """
    module, colon, name = path.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise PluginError(f"{path!r} must be written package.module:Class.")
    if (loaded := sys.modules.get(module)) is not None:
        if name in vars(loaded):
            found = vars(loaded)[name]
            return face_of(found) if isinstance(found, type) else None
        known: Collection[str] | None = None if hasattr(loaded, "__getattr__") else vars(loaded)
    else:
        tree = _tree(module)
        if tree is None:
            return None
        _check_imports(module)
        known = _names(tree)
        if known is not None and name in known:
            return _in_tree(module, tree, name, requires)
    if known is None:
        return None
    raise PluginError(f"{path!r}: {module} has no {name}.{suggest(name, known)} Correct it.")


def _in_tree(module: str, tree: ast.Module, name: str, requires: Collection[str]) -> Face | None:
    """Return what a class of a module implements; None if it is no class, or in a package."""
    for node in _statements(tree):
        if isinstance(node, ast.ImportFrom) and name in _bound(node):
            (alias,) = [each for each in node.names if name in (each.asname, each.name)]
            origin = _origin(module, node)
            return read_face(f"{origin}:{alias.name}", requires) if origin else None
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _of_class(module, tree, node, requires)
    return None


def _of_class(module: str, tree: ast.Module, node: ast.ClassDef, requires: Collection[str]) -> Face:
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    face = Face({each.name: _method(each) for each in functions})
    if node.decorator_list:  # Of a dataclass.
        face.methods.setdefault("__init__", Method((), None))
    for base in node.bases:
        if all(name in face.methods for name in requires):
            face.whole = False
            break
        found = None
        if isinstance(base, ast.Name):
            try:
                found = _in_tree(module, tree, base.id, requires)
            except PluginError:  # Its own module is not the plugin's concern.
                found = None
        face.whole &= found is not None and found.whole
        face.methods = {**(found.methods if found is not None else {}), **face.methods}
    return face


def _method(node: ast.FunctionDef) -> Method:
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    wanted = names[: len(names) - len(node.args.defaults)]
    if not node.decorator_list:
        return Method(without_self(wanted), None)
    # Whatever decorates it may be the marker under another name.
    calls = [each for each in node.decorator_list if isinstance(each, ast.Call)]
    given = [word for call in calls for word in call.keywords]
    marks = {str(x.arg): x.value.value for x in given if isinstance(x.value, ast.Constant)}
    return Method(without_self(wanted), marks)


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
            what = "which is not installed. Install it, and name it among the dependencies."
            text = (
                f"{module} imports {name}: {error}" if own else f"{module} imports {name}, {what}"
            )
            raise PluginError(text) from error


def _origin(module: str, node: ast.ImportFrom) -> str | None:
    """Return the module that `from ... import` names; None where it depends on what is imported."""
    if not node.level:
        return node.module
    spec = find_module(module)
    package = module if spec and spec.submodule_search_locations else module.rpartition(".")[0]
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return None


def _names(tree: ast.Module) -> set[str] | None:
    """Return the names that a module has; None if its sources do not say."""
    names = {name for node in _statements(tree) for name in _bound(node)}
    return None if {"*", "__getattr__"} & names else names


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield a module's statements, those in `if`, `try` and `with` too."""
    left: list[ast.AST] = list(tree.body)
    while left:
        node = left.pop(0)
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.ExceptHandler, ast.For, ast.While)):
            left = [*ast.iter_child_nodes(node), *left]


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
    """Find a module without importing it or its packages; None if it is loaded, or of no file.

    Raises:
        PluginError: there is none.
    """
    top, *inner = module.split(".")
    if module in sys.modules:
        return sys.modules[module].__spec__
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # Loaded, and made by a program.
        return None
    name = top
    for part in ("", *inner):
        places = spec.submodule_search_locations if spec is not None else None
        if part:
            name = f"{name}.{part}"
            spec = PathFinder.find_spec(name, places) if places is not None else None
        if spec is None:
            siblings = [each.name for each in pkgutil.iter_modules(places)] if places else []
            raise PluginError(
                f"there is no module {name}.{suggest(part, siblings)} Correct the name, or add it "
                "to the distribution."
            )
    return spec
