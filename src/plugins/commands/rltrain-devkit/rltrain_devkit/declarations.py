"""Several modules that declare a plugin's parts, made into one."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Sequence

__all__ = ["merged"]

_WIDTH = 100


def merged(sources: Sequence[str]) -> str:
    """Return the source of one `plugin.py` that provides what several do.

    Args:
        sources: each has a docstring, imports of names, definitions, and `rltrain_provides`, whose
            last statement returns a list.
    """
    if len(sources) == 1:
        return sources[0]
    imports: dict[str, set[str]] = {}
    definitions, specs = [], []
    for source in sources:
        lines, body = source.splitlines(), ast.parse(source).body
        imported = [node for node in body if isinstance(node, ast.ImportFrom)]
        for node in imported:
            names = imports.setdefault(node.module or "", set())
            names |= {alias.name for alias in node.names}
        hook = body[-1]
        assert isinstance(hook, ast.FunctionDef)
        between = lines[imported[-1].end_lineno : hook.decorator_list[0].lineno - 1]
        definitions.append("\n".join(between).strip())
        specs.extend(_specs(hook, lines))
    docstring = sources[0].partition("\n")[0]
    defined = "\n\n\n".join(filter(None, definitions))
    hook_text = "\n".join(
        [
            "@hookimpl",
            "def rltrain_provides() -> Iterable[Spec]:",
            '    """Declare what this distribution provides."""',
            "    return [",
            *specs,
            "    ]",
        ]
    )
    # No kind's definitions begin with a function, which linters want two lines further down.
    before = "\n\n".join([docstring, *_sections(imports), *([defined] if defined else [])])
    return f"{before}\n\n\n{hook_text}\n"


def _specs(hook: ast.FunctionDef, lines: Sequence[str]) -> list[str]:
    """Return the lines of the list that the hook returns."""
    returned = hook.body[-1]
    assert isinstance(returned, ast.Return)
    listed = returned.value
    assert isinstance(listed, ast.List)
    *first, last = lines[listed.elts[0].lineno - 1 : listed.elts[-1].end_lineno]
    return [*first, last.rstrip(",") + ","]


def _sections(imports: dict[str, set[str]]) -> Iterable[str]:
    """Return the imports as linters sort them: Python's, rltrain's, the plugin's own."""

    def section(module: str) -> int:
        root = module.partition(".")[0]
        if root == "__future__":
            return 0
        return 1 if root in sys.stdlib_module_names else 2 if root == "rltrain" else 3

    for number in range(4):
        modules = sorted(module for module in imports if section(module) == number)
        if modules:
            yield "\n".join(_line(module, sorted(imports[module])) for module in modules)


def _line(module: str, names: Sequence[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])
