"""Figures on pages are what scripts printed, kept in `benchmarks/figures`, and none is typed."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import figures  # noqa: E402

NAMES = sorted(file.stem for file in figures.FOLDER.glob("*.json"))
OF_FIGURES = ("speed", "measurements", "learning")
"""Pages on which each table is of figures."""


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_figures_that_were_printed(name):
    page = figures.page_of(name).read_text()
    assert figures.rendered(page, figures.kept(name)) == page


@pytest.mark.parametrize("name", OF_FIGURES)
def test_no_table_of_figures_is_typed(name):
    shown = figures.tables(figures.page_of(name).read_text())
    assert shown == [figure["lines"] for figure in figures.kept(name)]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_names_what_printed_them_and_that_can_be_run(name):
    """Here, or at the commit that the page names: a study that answered its question has left."""
    page = " ".join(figures.page_of(name).read_text().split())
    for command, at in {(figure["by"], figure.get("at")) for figure in figures.kept(name)}:
        assert f"{command}` of commit `{at}`" in page if at else command in page
        if script := re.search(r"benchmarks/\w+\.py", command):
            source = then(script[0], at) if at else (ROOT / script[0]).read_text()
            assert all(flag in source for flag in re.findall(r"--[\w-]+", command))


def then(script, at):
    git = ["git", "-C", str(ROOT)]
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("there is no history")
    shallow = subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=True
    )
    if shallow.stdout.strip() == "true":
        pytest.skip("the history is cut off")
    shown = subprocess.run([*git, "show", f"{at}:{script}"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert not (ROOT / script).exists(), "it is here: name no commit"
    return shown.stdout


def test_what_scripts_import_of_the_project_is_there():
    """They run rarely, and mypy does not read them."""
    for script in (ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(script.read_text())):
            if isinstance(node, ast.ImportFrom) and re.match(
                r"rltrain\b|rltrain_", node.module or ""
            ):
                spec = importlib.util.find_spec(node.module)
                assert spec is not None, (script.name, node.module)
                names = set(re.findall(r"\w+", Path(spec.origin).read_text()))
                names |= {path.stem for path in Path(spec.origin).parent.iterdir()}
                assert {each.name for each in node.names} <= names, (script.name, node.module)


def test_other_figures_are_kept_in_place_of_those_with_the_same_head(tmp_path, monkeypatch):
    page = "Text.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nMore, in 1 line.\n"
    (tmp_path / "speed.json").write_text(
        '[{"by": "python benchmarks/x.py --n 2", "lines": ["| a | b |", "|---|---|", "| 1 | 2 |"]}]'
    )
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    figures.take("speed", "x.py", "2 cores\n\n| a | b |\n|---|---|\n| 3 | 4 |\n| 5 | 6 |\n")
    made = figures.rendered(page, figures.kept("speed"))
    assert made == page.replace("| 1 | 2 |\n", "| 3 | 4 |\n| 5 | 6 |\n")
