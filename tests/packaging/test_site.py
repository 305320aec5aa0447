"""The site documents every public name of the modules that a plugin's author imports."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from rltrain.config.checks import flag
from rltrain.config.declare import option_of
from rltrain.options.run import RunOptions

ROOT = Path(__file__).parents[2]
PUBLIC = (ROOT / "docs/reference/public-api.md").read_text()
MODULES = re.findall(r"^\| \[`(rltrain(?:\.[\w.]+)?)`", PUBLIC, re.MULTILINE)


def tree(module):
    (root,) = ROOT.glob(f"src/**/{module.partition('.')[0]}/__init__.py")
    path = root.parents[1] / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text())


def public(module):
    for statement in tree(module).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return ast.literal_eval(statement.value)
    raise AssertionError(f"{module} has no __all__")


def is_text(statement):
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def docstrings(body):
    """Return each name that a class or module defines, and whether it has a docstring."""
    found = {}
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            found[statement.name] = ast.get_docstring(statement) is not None
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            target = statement.target if isinstance(statement, ast.AnnAssign) else None
            for name in [target] if target else statement.targets:
                found[ast.unparse(name)] = is_text(after)
    return found


def has_docstring(module, name):
    defined = docstrings(tree(module).body)
    if name in defined:
        return defined[name]
    for statement in ast.walk(tree(module)):
        imports = isinstance(statement, ast.ImportFrom)
        if imports and name in [each.name for each in statement.names]:
            return has_docstring(statement.module, name)
    raise AssertionError(f"{module}.__all__ has {name}, which is not there")


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_docstring(module):
    without = {name for name in public(module) if not has_docstring(module, name)}
    assert without <= {"__version__"}


def test_every_option_of_a_run_has_a_help():
    options = [option_of(field) for field in dataclasses.fields(RunOptions)]
    assert len(options) > 40
    assert all(option.help and option.group for option in options)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    own = ROOT / ".venv-docs" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    found = subprocess.run([python, "-c", "import mkdocs, mkdocstrings"], capture_output=True)
    if found.returncode:
        pytest.skip("mkdocs is not installed: make docs")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [python, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_every_public_name_is_on_the_site(site):
    # The inventory: four lines of text, then compressed lines, each a name and its location.
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    documented = {line.split(" ")[0] for line in zlib.decompress(packed).decode().splitlines()}
    wanted = {f"{module}.{name}" for module in MODULES for name in public(module)}
    assert wanted - documented == set()


@pytest.mark.slow
def test_every_option_and_every_command_is_on_the_site(site):
    options = (site / "reference" / "options.html").read_text()
    for field in dataclasses.fields(RunOptions):
        asks = option_of(field).kind != "none"
        section = "NAME" if field.name == "plugins" else field.name
        shown = flag(field.name) if asks else f"{section}.KEY=VALUE"
        assert f"<code>{shown}</code>" in options
    commands = (site / "reference" / "command-line.html").read_text()
    for name in ("train", "play", "evaluate", "export", "report", "scale", "tasks", "doctor"):
        assert f"usage: rltrain {name}" in commands


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert 'src="http' not in text, page
        assert '<link rel="stylesheet" href="http' not in text, page
