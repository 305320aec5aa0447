from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # Makes the modules beside the tests importable.


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The folder of Isaac Lab's sources, fetched once for all processes of a test run."""
    from wheel import Missing, unpacked

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    try:
        return unpacked(shared / "isaaclab")
    except Missing as reason:
        pytest.skip(str(reason))
