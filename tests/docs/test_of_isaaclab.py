"""Isaac Lab's names and flags: pages name tasks that exist, and each flag of its commands is known.

`of_isaaclab.json` holds what its wheels say; a test compares it with the wheels.
"""

from __future__ import annotations

import json
from pathlib import Path

import of_isaaclab
import pytest

from rltrain.cli.main import command_of
from rltrain.cli.parser import make_parser, parse
from rltrain.errors import UsageError

KNOWN = json.loads(of_isaaclab.FILE.read_text())
PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
COMMANDS = {
    "train": "train",
    "train_multigpu": "train",
    "play": "play",
    "random_agent": "play",
    "leapp export": "export",
}
FLAGS = KNOWN["3.0.0"]["flags"]


def said(command, words: list[str]) -> str:
    try:
        parse(command_of([command])[1], None, words)
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FLAGS)
def test_each_flag_of_isaac_lab_is_taken_or_answered(name):
    for flag in FLAGS[name]:
        message = said(COMMANDS[name], [flag, "1"])
        assert f"Unknown argument '{flag.replace('_', '-')}'" not in message
        assert "\n" not in message


@pytest.mark.parametrize("name", FLAGS)
def test_the_page_has_the_flags_that_are_not_ours(name):
    parser = make_parser(command_of([COMMANDS[name]])[1], name)
    ours = {option for action in parser._actions for option in action.option_strings}
    others = [flag for flag in FLAGS[name] if flag.replace("_", "-") not in ours]
    assert [flag for flag in others if f"`{flag}" not in PAGE] == []


def test_the_page_has_the_fields_of_a_request():
    fields = KNOWN["3.0.0"]["request"]
    assert len(fields) == 12
    assert [name for name in fields if f"`{name}`" not in PAGE] == []


@pytest.mark.slow
@pytest.mark.parametrize("version", of_isaaclab.VERSIONS)
def test_the_wheels_say_the_same(version, tmp_path):
    try:
        folder = of_isaaclab.wheel.fetched(tmp_path, version)
    except of_isaaclab.wheel.Missing as reason:
        pytest.skip(str(reason))
    assert of_isaaclab.read(folder) == KNOWN[version]
