"""Lets the tests of this folder import their helpers, and keeps trackers' clients apart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

MLFLOW = ("RUN_ID", "EXPERIMENT_NAME", "EXPERIMENT_ID", "TRACKING_TOKEN")
WANDB = ("API_KEY", "PROJECT", "ENTITY", "NAME", "RUN_GROUP", "TAGS", "MODE", "DIR")


@pytest.fixture
def apart(monkeypatch, tmp_path):
    """Keep the clients from the network, and from the user's own files and variables."""
    for name in (*(f"MLFLOW_{name}" for name in MLFLOW), *(f"WANDB_{name}" for name in WANDB)):
        monkeypatch.delenv(name, raising=False)
    home = str(tmp_path / "home")
    for name in ("HOME", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, home)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/store")
    monkeypatch.setattr(sys, "argv", ["rltrain", "--writer", "wandb"])
    yield
    if "wandb" in sys.modules:
        sys.modules["wandb"].teardown()  # It has read the variables once for the whole process.
