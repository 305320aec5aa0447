from __future__ import annotations

from rltrain_devkit import GradientSyncConformance


class TestFp16(GradientSyncConformance):
    grad_sync = "fp16"
    tolerance = 1e-3
