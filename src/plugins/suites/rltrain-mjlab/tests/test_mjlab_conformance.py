"""The suite passes the conformance kit."""

from __future__ import annotations

from rltrain_devkit import SuiteConformance


class TestMjlab(SuiteConformance):
    suite = "mjlab"
    task = "Mjlab-Cartpole-Balance"
    env = {"episode_length_s": 0.75}  # 15 steps.
    ends = False
