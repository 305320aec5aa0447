"""Reads the sources of packages to tell whose a task is; imports the module that a user names.

Importing a simulator takes seconds; a name that nobody knows must not cost that.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from rltrain.errors import UsageError

__all__ = ["find_modules_here", "import_for", "mentions", "registered_names"]

_REGISTERED = r"""(?:\b{argument}\s*=|\b{function}\()\s*["']([^"'{{}}]+)["']"""


def find_modules_here() -> None:
    """Let modules in the current folder be imported, as `python -m rltrain` does.

    Called only for a task that the user has named with its module. The folder comes last, so that
    no file there takes the place of an installed package.
    """
    folder = os.getcwd()
    if not {"", folder} & set(sys.path):
        sys.path.append(folder)


def import_for(task: str, module: str | None = None) -> str:
    """Import a module that registers a task, and return the task's name without a module.

    Args:
        task: "Name", or "module:Name".
        module: the module; by default the one that the task names, if it does.

    Raises:
        UsageError: the module cannot be imported.
    """
    named, _, name = task.rpartition(":")
    module = module or named
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(
                f"The task {task!r}: the module {module!r} cannot be imported: {error}"
            ) from error
    return name


def mentions(module: str, *texts: str, files: str = "*.py") -> bool:
    """Return whether the sources of a module have one of some texts.

    Args:
        module: the module, or a package with all that it contains.
        texts: what to look for.
        files: the names of a package's files that are read.
    """
    wanted = [text.encode() for text in texts]
    return any(text in content for content in _sources(module, files) for text in wanted)


def registered_names(module: str, function: str, argument: str, files: str = "*.py") -> list[str]:
    """Return the names that a package registers in plain text, in the order of its files.

    Args:
        module: the package.
        function: takes the name as its first argument, such as "register".
        argument: or as this one, such as "id".
        files: the names of a package's files that are read.
    """
    pattern = re.compile(_REGISTERED.format(argument=argument, function=function))
    found = (pattern.findall(text.decode(errors="replace")) for text in _sources(module, files))
    return list(dict.fromkeys(name for names in found for name in names))


def _sources(module: str, files: str) -> Iterator[bytes]:
    for path in _files(module, files):
        try:
            yield path.read_bytes()
        except OSError:  # Broken links, say.
            continue


def _files(module: str, names: str) -> Iterator[Path]:
    """Return the files of a module, in order; none if it cannot be found."""
    top, *inner = module.split(".")
    if not all(part.isidentifier() for part in (top, *inner)):
        return
    try:
        spec = importlib.util.find_spec(top)  # Of a top-level module, this imports nothing.
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *inner)
        if path.is_dir():
            yield from sorted(path.rglob(names))
        elif path.with_suffix(".py").is_file():
            yield path.with_suffix(".py")
    if not spec.submodule_search_locations and not inner and spec.origin is not None:
        yield from (path for path in [Path(spec.origin)] if path.suffix == ".py")
