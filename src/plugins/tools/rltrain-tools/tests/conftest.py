from __future__ import annotations

import sys
from pathlib import Path

import pytest
from made_up_plugins import cli, hidden_variables, plain_environment, site, stub

import rltrain

__all__ = ["cli", "hidden_variables", "plain_environment", "site", "stub"]

sys.path.insert(0, str(Path(__file__).parent))  # Makes the helpers next to the tests importable.


@pytest.fixture
def run(stub, capsys):
    """The run folder of a training that has saved one checkpoint."""
    folder = Path(rltrain.train(**stub.OPTIONS, env={"gravity": 1.5}, seed=3).run_dir)
    capsys.readouterr()
    stub.EVENTS.clear()
    return folder
