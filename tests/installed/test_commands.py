"""The commands of plugins, as the command line knows them."""

from __future__ import annotations

import re

import pytest
from helpers import python

from rltrain.cli.main import main, read_run
from rltrain.errors import UsageError


def test_the_first_help_is_one_screen_of_commands(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 30
    assert max(map(len, lines)) < 90
    named = {line.split()[0] for line in lines if re.match("  [a-z]+  ", line)}
    assert named > {"train", "tasks", "plugins", "doctor", "new", "play", "evaluate", "export"}


def test_a_command_that_does_not_train_is_no_run():
    with pytest.raises(
        UsageError, match=r"rltrain doctor: does not train\. Give the flags of a run"
    ):
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
