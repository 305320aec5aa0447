"""Figures on pages are what scripts printed, kept in `benchmarks/figures`, and none is typed."""

from __future__ import annotations

import re
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
    page = " ".join(figures.page_of(name).read_text().split())
    for command in {figure["by"] for figure in figures.kept(name)}:
        assert command in page
        if script := re.search(r"benchmarks/\w+\.py", command):
            source = (ROOT / script[0]).read_text()
            assert all(flag in source for flag in re.findall(r"--[\w-]+", command))


def test_other_figures_are_kept_in_place_of_those_with_the_same_head(tmp_path, monkeypatch):
    page = "Text.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nMore, in 1 line.\n"
    (tmp_path / "speed.json").write_text(
        '[{"by": "python benchmarks/x.py --n 2", "lines": ["| a | b |", "|---|---|", "| 1 | 2 |"]}]'
    )
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    figures.take("speed", "x.py", "2 cores\n\n| a | b |\n|---|---|\n| 3 | 4 |\n| 5 | 6 |\n")
    made = figures.rendered(page, figures.kept("speed"))
    assert made == page.replace("| 1 | 2 |\n", "| 3 | 4 |\n| 5 | 6 |\n")
