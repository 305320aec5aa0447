"""Skips tests of jax where this optional framework is not installed."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def framework_is_installed(request):
    """Skip the conformance classes of a framework that is not installed."""
    framework = getattr(request.cls, "framework", "torch")
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
