"""Pages, and tables of pages, that a script prints are what it prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers import run

ROOT = Path(__file__).parents[2]
PAGES = {"support": "tests/shards/support_table.py", "policies": "tests/policies/policies_table.py"}
TABLES = {"scaling": "benchmarks/scaling_on_paper.py"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAGES, *TABLES])
def test_a_page_has_what_its_script_prints(name):
    printed = run(sys.executable, ROOT / (PAGES | TABLES)[name], cwd=ROOT)
    page = (ROOT / "docs" / f"{name}.md").read_text()
    if name in PAGES:
        assert page == printed
    else:
        rows = [line for line in page.splitlines() if line.startswith("|")]
        assert rows == printed.replace("\n\n", "\n").splitlines()
