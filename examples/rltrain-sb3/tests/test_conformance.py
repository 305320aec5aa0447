from __future__ import annotations

from rltrain_devkit import LibraryConformance


class TestSb3(LibraryConformance):
    library = "sb3"
    agent = {"n_steps": 16, "batch_size": 32, "n_epochs": 2}
