"""The commands of plugins, as the command line knows them."""

from __future__ import annotations

import re

import pytest
from helpers import python

from rltrain.cli.main import command_of, main, read_run
from rltrain.cli.parser import parse
from rltrain.errors import UsageError


def help_of(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_the_first_help_is_one_screen_of_commands(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 30
    assert max(map(len, lines)) < 90
    named = {line.split()[0] for line in lines if re.match("  [a-z]+  ", line)}
    assert named > {"train", "tasks", "plugins", "doctor", "new", "play", "evaluate", "export"}


def test_all_help_names_every_flag(capsys):
    assert "--master-addr" in help_of(capsys, "doctor", "--help-all")


def test_help_of_a_command(capsys):
    assert help_of(capsys, "help", "evaluate") == help_of(capsys, "evaluate", "--help")


def test_no_word_that_follows_a_switch_is_its_value():
    name, loaded, words = command_of(["evaluate", "--headless", "run"])
    assert parse(loaded, name, words)[0].run == ["run"]


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
