from __future__ import annotations

from rltrain_devkit import LibraryConformance


class TestJaxPpo(LibraryConformance):
    library = "jax_ppo"
    framework = "jax"
    agent = {"steps": 8, "epochs": 2}
