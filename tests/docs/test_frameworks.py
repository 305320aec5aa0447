"""The helpers of `rltrain_torch` and `rltrain_jax` that plugins use are on their pages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    name: ROOT / "src" / "plugins" / "backends" / f"rltrain-{name}" for name in ("torch", "jax")
}


def documented(name):
    """Return (module, name) of all that a page names."""
    page = (ROOT / "docs" / "reference" / f"{name}.md").read_text()
    blocks = re.findall(r"^::: (\S+)\n    options:\n      members: \[(.*)\]$", page, re.MULTILINE)
    assert len(blocks) == page.count("\n:::")
    return {(module, member) for module, members in blocks for member in members.split(", ")}


def imported(name):
    """Return (module, name) of what other distributions, examples and templates import."""
    package = f"rltrain_{name}"
    sources = [
        path
        for folder in ("src/plugins", "examples")
        for suffix in ("*.py", "*.py.tmpl")
        for path in (ROOT / folder).rglob(suffix)
        if FOLDERS[name] not in path.parents and "tests" not in path.parts
    ]
    found = set()
    for path in sources:
        for module, names in re.findall(
            rf"^ *from ({package}(?:\.\w+)*) import ([\w, ]+)", path.read_text(), re.MULTILINE
        ):
            found |= {(module, each.strip()) for each in names.split(",")}
    return found


@pytest.mark.parametrize("name", FOLDERS)
def test_what_plugins_import_is_on_the_page(name):
    assert len(imported(name)) > 3
    assert imported(name) - documented(name) == set()


@pytest.mark.parametrize("name", FOLDERS)
def test_what_the_page_names_says_what_it_takes_and_returns(name):
    for module, member in documented(name):
        path = FOLDERS[name] / f"{module.replace('.', '/')}.py"
        (node,) = (
            node
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == member
        )
        text = ast.get_docstring(node)
        assert text, (module, member)
        if isinstance(node, ast.FunctionDef) and ast.unparse(node.returns) != "None":
            assert re.search(r"\bReturns?\b", text), (module, member)
        if isinstance(node, ast.FunctionDef) and len(node.args.args) > 1:
            assert "Args:" in text, (module, member)
