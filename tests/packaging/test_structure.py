"""The core stays small, and its tests need nothing else."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltrain.config import RunConfig
from rltrain.config.options import Options
from rltrain.options import RunOptions
from rltrain.specs import KINDS

ROOT = Path(__file__).parents[2]
STRUCTURE = runpy.run_path(str(ROOT / "benchmarks" / "structure.py"))


@pytest.mark.parametrize("what", STRUCTURE["BUDGET"])
def test_what_there_is_stays_within_its_budget(what):
    assert STRUCTURE["sizes"]()[what] <= STRUCTURE["BUDGET"][what], (
        "Move something into a plugin: `python benchmarks/structure.py` prints lines by package."
    )


def test_the_tests_of_the_core_import_nothing_that_it_does_not_depend_on():
    """`make test-core` runs them where nothing else is installed; none may be skipped there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = project["project"]["dependencies"] + project["dependency-groups"]["core-tests"]
    allowed = {re.match(r"[\w-]+", each)[0].replace("-", "_") for each in named}
    allowed |= {"rltrain", "yaml", *sys.stdlib_module_names}  # PyYAML's name is yaml.
    files = [*(ROOT / "tests" / "unit").rglob("*.py")]
    allowed |= {path.stem for path in files}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            others = {name.partition(".")[0] for name in names} - allowed
            assert not others, f"{path.name} imports {others}: move it to tests/packaging"
            assert getattr(node, "attr", None) != "importorskip", path.name


OPTIONS = {field.name for field in dataclasses.fields(RunOptions)}


def _names_in(node: ast.AST) -> Iterator[str]:
    """Yield the options that a list, or a table of words by option, names."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        items = list(node.elts)
    elif isinstance(node, ast.Dict):
        words = (ast.Constant, ast.JoinedStr, ast.Tuple)
        pairs = zip(node.keys, node.values, strict=True)
        items = [key or value for key, value in pairs if key is None or isinstance(value, words)]
    else:
        items = []
    for item in items:
        if isinstance(item, ast.Constant) and item.value in OPTIONS:
            yield item.value
        elif isinstance(item, ast.Starred | ast.Dict):  # *(...) and **{...}
            yield from _names_in(getattr(item, "value", item))


@pytest.mark.slow
def test_no_list_names_options():
    """Their declarations say what they are about: `rltrain.options.scoped` asks them."""
    found = {}
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text())
        # What a launcher does not have, it declares.
        lacks = {x.value for x in ast.walk(tree) if isinstance(x, ast.keyword) and x.arg == "lacks"}
        declared = {node for each in lacks for node in ast.walk(each)}
        for node in ast.walk(tree):
            names = set() if node in declared else set(_names_in(node))
            kinds = set(KINDS)  # Those of plugins have the names of options.
            if len(names) > 4 and not (names <= kinds or {"tests", "testing"} & {*path.parts}):
                found[f"{path.relative_to(ROOT)}:{node.lineno}"] = sorted(names)
    assert not found


def test_commands_declare_their_options_as_a_run_does():
    """In a dataclass, for `rltrain.commands.add_flags`: argparse checks no value."""
    modules = [path for path in (ROOT / "src").rglob("*.py") if "tests" not in path.parts]
    texts = {path: path.read_text() for path in modules}
    commands = [path for path, text in texts.items() if "def add_arguments(self" in text]
    by_argparse = {path.name for path in commands if ".add_argument(" in texts[path]}
    # A word that no user types, and the parser of the tab key.
    assert by_argparse == {"train.py", "completion.py"}


def test_no_option_is_declared_twice():
    for cls in (RunOptions, RunConfig):
        bases = [base for base in cls.__mro__ if base is not object]
        names = [name for base in bases for name in inspect.get_annotations(base)]
        assert len(names) == len(set(names))
    assert {each.name for each in dataclasses.fields(Options)} < OPTIONS
