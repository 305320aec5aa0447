"""Every command of this repository keeps the rules of the kit."""

from __future__ import annotations

import pytest

from rltrain.builtin.plugin import COMMANDS
from rltrain.commands import commands
from rltrain_devkit import CommandConformance

pytestmark = pytest.mark.slow

CALLS = {
    "check": {"needs": ["console"], "refuses": ["consoel"]},
    "complete": {},
    "doctor": {"refuses": ["--backend", "glu"]},
    "evaluate": {"needs": ["gone"], "refuses": ["gone"]},
    "export": {"needs": ["gone"], "refuses": ["gone"]},
    "manifest": {"needs": ["--kind", "jobset", "--name", "a", "--image", "b"]},
    "new": {"needs": ["mine", "--kind", "writer"], "works": ["mine", "--kind", "writer"]},
    "play": {"needs": ["gone"], "refuses": ["gone"]},
    "report": {"needs": ["gone"], "refuses": ["gone"]},
    "scale": {"needs": ["gone"], "refuses": ["gone"]},
    "tasks": {"refuses": ["--suite", "none"]},
}

for name, call in CALLS.items():
    words = f"Test_{name}"
    globals()[words] = type(
        words, (CommandConformance,), {"command": name, **call, "__module__": __name__}
    )


def test_every_command_is_judged():
    assert set(commands()) - {spec.name for spec in COMMANDS} == set(CALLS)
