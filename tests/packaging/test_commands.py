"""The commands of plugins keep the rules of the kit, and the command line knows them."""

from __future__ import annotations

import re

import pytest
from helpers import python
from messages import says

from rltrain.builtin.plugin import COMMANDS
from rltrain.cli.main import main, read_run
from rltrain.commands import commands
from rltrain.errors import UsageError
from rltrain_devkit import CommandConformance


def test_the_first_help_is_one_screen_of_commands(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 30
    assert max(map(len, lines)) < 90
    named = {line.split()[0] for line in lines if re.match("  [a-z]+  ", line)}
    assert named > {"train", "tasks", "plugins", "doctor", "new", "play", "evaluate", "export"}


def test_a_command_that_does_not_train_is_no_run():
    with says(UsageError):
        read_run(["doctor", "--no-ranks"])


def test_a_command_of_another_program_that_trains_is_read():
    assert read_run(["train_multigpu"])["distributed"] is True


def test_the_help_imports_nothing_that_only_a_run_needs():
    """Each command pays for what the module of any plugin imports."""
    code = (
        "import sys; from rltrain.cli.main import main; main(['--help']); "
        "sys.exit(', '.join({'rltrain.launch', 'rltrain.nodes'} & set(sys.modules)) or 0)"
    )
    assert python(code).stderr == ""


CALLS = {
    "check": {"needs": ["console"], "refuses": ["consoel"]},
    "complete": {},
    "demo": {"refuses": ["--library", "none"]},
    "doctor": {"refuses": ["--backend", "glu"]},
    "evaluate": {"needs": ["gone"], "refuses": ["gone"]},
    "export": {"needs": ["gone"], "refuses": ["gone"]},
    "manifest": {"needs": ["--kind", "jobset", "--name", "a", "--image", "b"]},
    "new": {"needs": ["mine", "--kind", "writer"], "works": ["mine", "--kind", "writer"]},
    "play": {"needs": ["gone"], "refuses": ["gone"]},
    "report": {"needs": ["gone"], "refuses": ["gone"]},
    "scale": {"needs": ["gone"], "refuses": ["gone"]},
    "sweep": {"refuses": ["best", "gone"]},
    "tasks": {"refuses": ["--suite", "none"]},
}

for name, call in CALLS.items():
    words = f"Test_{name}"
    made = type(words, (CommandConformance,), {"command": name, **call, "__module__": __name__})
    globals()[words] = pytest.mark.slow(made)


def test_every_command_is_judged():
    assert set(commands()) - {spec.name for spec in COMMANDS} == set(CALLS)
