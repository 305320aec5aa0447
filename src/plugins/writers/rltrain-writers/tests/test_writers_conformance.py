"""The writers keep the rules of the kit."""

from __future__ import annotations

import pytest

from rltrain_devkit import WriterConformance

wandb = pytest.importorskip("wandb")
pytest.importorskip("mlflow")
pytest.importorskip("tensorboard")


class TestConsole(WriterConformance):
    writer = "console"


class TestTensorBoard(WriterConformance):
    writer = "tensorboard"


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Keep the clients from the network and from the user's own files."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/store")
    for name in ("CONFIG_DIR", "CACHE_DIR", "DATA_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path))
    yield
    wandb.teardown()


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
class TestWandb(WriterConformance):
    writer = "wandb"
    options = {"mode": "offline"}


@pytest.mark.usefixtures("elsewhere")
class TestMlflow(WriterConformance):
    writer = "mlflow"
