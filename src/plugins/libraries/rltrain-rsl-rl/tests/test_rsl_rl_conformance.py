from __future__ import annotations

from rltrain_devkit import LibraryConformance


class TestRslRl(LibraryConformance):
    library = "rsl_rl"
    agent = {"num_steps_per_env": 8, "algorithm.num_mini_batches": 2}
