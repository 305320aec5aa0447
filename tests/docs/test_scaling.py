"""The page on scaling shows what its script prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_are_the_scripts():
    script = str(ROOT / "benchmarks" / "scaling_on_paper.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "scaling.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert rows == done.stdout.replace("\n\n", "\n").splitlines()
