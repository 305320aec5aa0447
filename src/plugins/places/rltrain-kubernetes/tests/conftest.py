"""Writes manifests by the command, as a user does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from rltrain.cli.main import main

sys.path.insert(0, str(Path(__file__).parent))  # Makes the helpers next to the tests importable.


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """Write a manifest, and return it: `manifest("jobset", "--nnodes 2 ...", "--env", "A=1")`."""
    monkeypatch.chdir(tmp_path)

    def write(kind: str, run: str, *flags: str):
        where = ("--kind", kind, "--name", "walk", "--image", "me/train:1", "--output", "walk.yaml")
        assert main(["manifest", *where, *flags, "--", *run.split()]) == 0
        return yaml.safe_load(Path("walk.yaml").read_text())

    return write
