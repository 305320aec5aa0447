"""The plugin passes the conformance kits of its kinds."""

from __future__ import annotations

import pytest

from rltrain_devkit import BackendConformance, GradientSyncConformance


@pytest.mark.slow
class TestJax(BackendConformance):
    backend = "jax"
    seeds_generator = False
    trains = False  # Other tests train on it; it compiles for long.


@pytest.mark.slow
class TestJaxCuda(BackendConformance):
    backend = "jax-cuda"
    seeds_generator = False


class TestTree(GradientSyncConformance):
    grad_sync = "tree"
