from __future__ import annotations

from rltrain_devkit import LibraryConformance


class TestPPO(LibraryConformance):
    library = "sb3"
    agent = {"n_steps": 16, "batch_size": 32, "n_epochs": 2}


class TestA2C(LibraryConformance):
    library = "sb3"
    algorithm = "a2c"
