"""The plugin passes the conformance kits of its kinds."""

from __future__ import annotations

import pytest

from rltrain_devkit import BackendConformance, GradientSyncConformance


@pytest.mark.slow
class TestGloo(BackendConformance):
    backend = "gloo"


class TestFlat(GradientSyncConformance):
    grad_sync = "flat"


class TestBf16(GradientSyncConformance):
    grad_sync = "bf16"
    tolerance = 2**-7
