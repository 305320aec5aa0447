"""Reads packages' sources: whose a task is, what words a library has; imports users' modules.

Importing a simulator takes seconds; an unknown name must not cost that. Modules are packages with
all their modules, too.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.util
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rltrain.errors import UsageError, in_a_line

_REGISTERED = r"""(?:\b{argument}\s*=|\b{function}\()\s*["']([^"'{{}}]+)["']"""

_READ = re.compile(
    rb"""\w*(?:config|params)(?:(?:\[|\.get\(|\.pop\()\s*["']\w+["']\]?)+"""
    rb"""|["']\w+["'] (?:not )?in (?:self\.)?\w*(?:config|params)\b"""
)
_QUOTED = re.compile(rb"""["'](\w+)["']""")

_LITERALS = (ast.Dict, ast.List, ast.Tuple, ast.Set)


def import_for(task: str, module: str | None = None) -> str:
    """Import a module that registers a task, and return the task's name without a module.

    By default, that is the module that the task names, as in "module:Name", if it does.
    """
    named, _, name = task.rpartition(":")
    module = module or named
    if module:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:  # Of a simulator that finds no display, say.
            why = error if isinstance(error, ImportError) else in_a_line(error, placed=True)
            raise UsageError(
                f"The task {task!r}: the module {module!r} cannot be imported: {why}"
            ) from error
    return name


def mentions(module: str, *texts: str, files: str = "*.py") -> bool:
    """Return whether a module's sources, in these files of a package, have one of the texts."""
    wanted = [text.encode() for text in texts]
    return any(text in content for content in _sources(module, files) for text in wanted)


def registered_names(module: str, function: str, argument: str, files: str = "*.py") -> list[str]:
    """Return the names that a package registers in plain text, in the order of its files.

    The function, such as "register", takes the name as its first argument, or as `argument`.
    """
    pattern = re.compile(_REGISTERED.format(argument=argument, function=function))
    found = (pattern.findall(text.decode(errors="replace")) for text in _sources(module, files))
    return list(dict.fromkeys(name for names in found for name in names))


@functools.cache
def texts_in(module: str, name: str) -> frozenset[str]:
    """Return the texts of the list, or the keys of the mapping, that a module assigns to a name."""
    values = [
        next((part for part in ast.walk(node.value) if isinstance(part, _LITERALS)), None)
        for node in _nodes(module, name)
        if isinstance(node, ast.Assign) and name in map(_last_name, node.targets)
    ]
    parts = [x.keys if isinstance(x, ast.Dict) else x.elts for x in values if x is not None]
    return _texts(part for each in parts for part in each)


@functools.cache
def first_arguments(module: str, function: str) -> frozenset[str]:
    """Return the texts that a module gives to a function as its first argument.

    It is named as it is called: "factory.register" in `self.factory.register("name")`.
    """
    owner, _, name = function.rpartition(".")
    return _texts(
        node.args[0]
        for node in _nodes(module, name)
        if isinstance(node, ast.Call) and node.args and _last_name(node.func) == name
        if not owner or _last_name(getattr(node.func, "value", node.func)) == owner
    )


@functools.cache
def compared_with(module: str, name: str) -> frozenset[str]:
    """Return the texts that a module compares a variable, attribute or key of a name with."""
    return _texts(
        part
        for node in _nodes(module, name)
        if isinstance(node, ast.Compare) and _last_name(node.left) == name
        for value in node.comparators
        for part in ast.walk(value)
    )


@functools.cache
def keys_read(*modules: str) -> frozenset[str]:
    """Return the keys that modules read of their options, as in `self.config.get("key")`.

    Options are what is called config or params, or ends so.
    """
    sources = (source for module in modules for source in _sources(module, "*.py"))
    found = (each for source in sources for each in _READ.findall(source))
    return frozenset(key.decode() for each in found for key in _QUOTED.findall(each))


@functools.cache
def parameters(module: str, name: str) -> Mapping[str, bool]:
    """Return the parameters of a class or a function, and whether each has a default.

    There are none if the module has no such class, or the class neither a constructor of its own
    nor fields, as a dataclass has.
    """
    kinds = (ast.ClassDef, ast.FunctionDef)
    named = [x for x in _nodes(module, name) if isinstance(x, kinds) and x.name == name]
    parts = [part for x in named for part in (x.body if isinstance(x, ast.ClassDef) else [x])]
    makers = [x for x in parts if isinstance(x, ast.FunctionDef) and x.name in ("__init__", name)]
    fields = [x for x in parts if isinstance(x, ast.AnnAssign) and not makers]
    found = {str(_last_name(x.target)): x.value is not None for x in fields}
    for made_with in (maker.args for maker in makers):
        places = (*made_with.posonlyargs, *made_with.args)
        by_place = [each.arg for each in places if each.arg != "self"]
        first = len(by_place) - len(made_with.defaults)
        found |= {each: place >= first for place, each in enumerate(by_place)}
        by_name = zip(made_with.kwonlyargs, made_with.kw_defaults, strict=True)
        found |= {each.arg: default is not None for each, default in by_name}
    return found


def _texts(nodes: Iterable[ast.AST | None]) -> frozenset[str]:
    values = (node.value for node in nodes if isinstance(node, ast.Constant))
    return frozenset(value for value in values if isinstance(value, str))


def _last_name(node: ast.AST) -> str | None:
    """Return "name" for `name`, `any.name`, `any["name"]` and `name.lower()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    if isinstance(node, ast.Subscript):
        return next(iter(_texts([node.slice])), None)
    return getattr(node, "attr", None) or getattr(node, "id", None)


def _nodes(module: str, name: str) -> Iterator[ast.AST]:
    """Yield the syntax trees' nodes of those files of a module that have a name."""
    for source in _sources(module, "*.py"):
        if name.encode() in source:
            yield from _parsed(source)


@functools.lru_cache(maxsize=1)  # A file is usually asked for several names in a row.
def _parsed(source: bytes) -> tuple[ast.AST, ...]:
    with contextlib.suppress(SyntaxError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of escapes that are not the user's.
        return tuple(ast.walk(ast.parse(source)))
    return ()


def _sources(module: str, names: str) -> Iterator[bytes]:
    """Yield the contents of a module's files, in order; none if it cannot be found."""
    top, *inner = module.split(".")
    if not all(part.isidentifier() for part in (top, *inner)):
        return
    try:
        spec = importlib.util.find_spec(top)  # Of a top-level module, this imports nothing.
    except (ImportError, ValueError):
        return
    files: list[Path] = []
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, *inner)
        files += sorted(path.rglob(names)) if path.is_dir() else [path.with_suffix(".py")]
    if spec is not None and not inner and (spec.origin or "").endswith(".py") and not files:
        files.append(Path(str(spec.origin)))
    for file in files:
        with contextlib.suppress(OSError):  # Of broken links, say.
            yield file.read_bytes()
