from __future__ import annotations

import tempfile

import pytest


@pytest.fixture(autouse=True)
def _compiles(request):
    """Skip what torch 2.13 cannot compile: it quotes no path."""
    if "compiled" in request.node.name:
        import torch

        if " " in f"{torch.__file__}{tempfile.gettempdir()}":
            pytest.skip("torch compiles nothing on a CPU in a path with a space")
