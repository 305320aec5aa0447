"""The page on supported features matches what the tests run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_the_claims_say():
    script = ROOT / "tests" / "shards" / "support_table.py"
    printed = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert (ROOT / "docs" / "support.md").read_text() == printed
