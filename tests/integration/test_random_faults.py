"""A run that is hit by random faults ends as if nothing had happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults.py"


@pytest.mark.slow
@pytest.mark.scenario
@pytest.mark.timeout(900)
def test_ten_random_faults_change_nothing():
    """Ranks are killed, stopped, raise, and get NaN; the parameters are equal."""
    command = [sys.executable, str(FAULTS), "--random", "10", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "the same bytes at the end; 0 processes left" in said
