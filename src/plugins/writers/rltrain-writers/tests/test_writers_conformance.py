"""The writers keep the rules of the kit."""

from __future__ import annotations

import pytest

from rltrain_devkit import WriterConformance


class TestConsole(WriterConformance):
    writer = "console"


class TestTensorBoard(WriterConformance):
    writer = "tensorboard"


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
class TestWandb(WriterConformance):
    writer = "wandb"
    options = {"mode": "offline"}
