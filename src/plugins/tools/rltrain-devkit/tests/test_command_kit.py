"""The kit of commands: a correct one passes, each wrong one fails the test of its fault alone."""

from __future__ import annotations

import pytest

COMMAND = """
import sys
from pathlib import Path
from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.specs import CommandSpec


@hookimpl
def rltrain_provides():
    return [CommandSpec(name="judged", factory=f"{__name__}:Command", takes="rest")]


class Command:
    '''Print a file.'''

    def add_arguments(self, parser):
        parser.add_argument("--file", default="a", help="the file (a)")

    def run(self, arguments, words):
        path = Path(arguments.file)
        if not path.exists():
            raise UsageError(f"--file {path}: is not there.")
        print(path.read_text())
        return 0
"""

OF_COMMAND = """
from rltrain_devkit import CommandConformance


class TestJudged(CommandConformance):
    command = "judged"
    works = []
    refuses = ["--file", "gone"]

    def prepare(self, folder):
        (folder / "a").write_text("words")
"""

WRONG = {
    "imports numpy": ("import sys", "import sys, numpy", "test_declaring_is_light"),
    "imports numpy for its flags": (
        "parser.add_argument(",
        "import numpy; parser.add_argument(",
        "test_its_help_is_light_and_whole",
    ),
    "explains no flag": (
        ', help="the file (a)"',
        "",
        "test_its_help_is_light_and_whole",
    ),
    "formats percent signs": ('"the file (a)"', '"100%d"', "test_help_ends_with_0"),
    "takes any flag": ('takes="rest"', 'takes="run"', "test_an_unknown_flag_is_refused"),
    "returns 3": ("return 0", "return 3", "test_it_works"),
    "has tracebacks": ("if not path.exists():", "if False:", "test_a_mistake_is_refused"),
    "names no input": ("--file {path}: is", "It is", "test_a_mistake_is_refused"),
}


pytestmark = pytest.mark.long


def test_a_correct_command_passes(judge):
    assert judge(COMMAND, OF_COMMAND) == {}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_command_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG[fault]
    assert COMMAND.count(old) == 1
    failed = judge(COMMAND.replace(old, new), OF_COMMAND)
    # A class that is too heavy is so wherever it is imported.
    assert list(failed)[:1] == [expected]
    assert set(failed) - {expected} <= {"test_its_help_is_light_and_whole"}
