"""The core stays small: what would make it larger is better a plugin."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

STRUCTURE = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "structure.py"))


@pytest.mark.parametrize("what", STRUCTURE["BUDGET"])
def test_the_core_keeps_its_budget(what):
    assert STRUCTURE["sizes"]()[what] <= STRUCTURE["BUDGET"][what], (
        "Move something into a plugin: `python benchmarks/structure.py` prints lines by package."
    )
