"""A run that goes on compares the versions of its library and framework."""

from __future__ import annotations

import json

from rltrain.plan.upgrades import changed_versions
from rltrain.plugins.registry import discover
from rltrain.testing import make_config


def test_the_library_and_the_framework_are_compared(tmp_path):
    chosen = {"library": "rl_games", "suite": "gymnasium", "backend": "gloo", "grad_sync": "flat"}
    config = make_config(**chosen, launcher="processes", writers=(), task="CartPole-v1")
    found = dict.fromkeys(("torch", "rl-games", "skrl"), "0.1")
    (tmp_path / "manifest.json").write_text(json.dumps({"config": {}, "versions": found}))
    note = changed_versions(tmp_path / "checkpoints" / "1.pth", config, discover())
    assert "torch 0.1 -> " in note
    assert "rl-games 0.1 -> " in note
    assert "skrl" not in note
