"""The fuzz tests: hostile bytes for everything that reads what somebody else wrote or sent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # Makes the modules beside the tests importable.


def pytest_addoption(parser):
    parser.addoption(
        "--fuzz", type=float, help="seconds for all kinds of inputs, instead of a number"
    )
    parser.addoption("--fuzz-seed", type=int, default=1, help="of the inputs")


@pytest.fixture
def fuzz(request):
    """The seed of the inputs, and the seconds for each kind of them, if they are limited so."""
    from targets import TARGETS

    seconds = request.config.getoption("--fuzz")
    return request.config.getoption("--fuzz-seed"), seconds and seconds / len(TARGETS)
