from __future__ import annotations

from rltrain_devkit import BackendConformance


class TestStar(BackendConformance):
    backend = "star"
    ranks = 3
