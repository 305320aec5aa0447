"""A package that registers tasks is tried as docs/environments.md says; a small one here."""

from __future__ import annotations

import pytest
from gymnasium_packages import LIBRARIES, TRAINS, tried

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_package_trains_with_every_library():
    came = tried("gymnasium-cartpole-swingup")
    assert {library: came[library] for library in LIBRARIES} == dict.fromkeys(LIBRARIES, TRAINS)
