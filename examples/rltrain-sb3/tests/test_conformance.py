from __future__ import annotations

from rltrain_devkit import LibraryConformance


class TestPPO(LibraryConformance):
    library = "sb3"
    agent = {"n_steps": 16, "batch_size": 32, "n_epochs": 2}
    as_one = {"batch_size": 128}  # One mini-batch: which rows are in it would depend on the ranks.
    scaled = ("batch_size",)


class TestA2C(LibraryConformance):
    library = "sb3"
    algorithm = "a2c"
    agent = {"normalize_advantage": True}
