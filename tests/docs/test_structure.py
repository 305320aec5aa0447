"""The core stays small, and its tests need nothing else."""

from __future__ import annotations

import ast
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STRUCTURE = runpy.run_path(str(ROOT / "benchmarks" / "structure.py"))


@pytest.mark.parametrize("what", STRUCTURE["BUDGET"])
def test_the_core_keeps_its_budget(what):
    assert STRUCTURE["sizes"]()[what] <= STRUCTURE["BUDGET"][what], (
        "Move something into a plugin: `python benchmarks/structure.py` prints lines by package."
    )


def test_the_tests_of_the_core_import_nothing_that_it_does_not_depend_on():
    """`make test-core` runs them where nothing else is installed; none may be skipped there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = project["project"]["dependencies"] + project["dependency-groups"]["core-tests"]
    base = sorted((ROOT / "src" / "base").glob("*/tests"))
    allowed = {re.match(r"[\w-]+", each)[0].replace("-", "_") for each in named}
    allowed |= {"rltrain", "yaml", *sys.stdlib_module_names}  # PyYAML's name is yaml.
    files = [path for folder in (ROOT / "tests" / "core", *base) for path in folder.rglob("*.py")]
    allowed |= {path.stem for path in files}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            others = {name.partition(".")[0] for name in names} - allowed
            assert not others, f"{path.name} imports {others}: move it to tests/installed"
            assert getattr(node, "attr", None) != "importorskip", path.name
