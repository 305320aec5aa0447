from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # Makes the modules beside the tests importable.


@pytest.fixture(autouse=True)
def _compiles(request):
    """Skip what torch 2.13 cannot compile: it quotes no path."""
    if "compiled" in request.node.name:
        import torch

        if " " in f"{torch.__file__}{tempfile.gettempdir()}":
            pytest.skip("torch compiles nothing on a CPU in a path with a space")
