from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # Makes the modules beside the tests importable.


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """Returns the folder of a version's sources, fetched once for all processes of a test run."""
    from wheel import Missing, unpacked

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def of_version(version):
        try:
            return unpacked(shared / "isaaclab", version)
        except Missing as reason:
            pytest.skip(str(reason))

    return of_version


@pytest.fixture
def wheel(wheels):
    return wheels("2.3.2.post1")
