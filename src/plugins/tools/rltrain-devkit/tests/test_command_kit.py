"""The kit of commands: the template passes, each wrong one fails the test of its fault alone."""

from __future__ import annotations

import pytest

WRONG = {
    "imports numpy": (
        "from collections.abc import Iterable",
        "import numpy; from collections.abc import Iterable",
        "test_declaring_is_light",
    ),
    "imports numpy for its flags": (
        "parser.add_argument(",
        "import numpy; parser.add_argument(",
        "test_its_help_is_light_and_whole",
    ),
    "explains no flag": (', help="folder of runs (logs)"', "", "test_its_help_is_light_and_whole"),
    "formats percent signs": ('"folder of runs (logs)"', '"100%d"', "test_help_ends_with_0"),
    "takes any flag": (
        "parser.add_argument(",
        "parser.refuse = lambda *_: None; parser.add_argument(",
        "test_an_unknown_flag_is_refused",
    ),
    "returns 3": ("return 0", "return 3", "test_it_works"),
    "has tracebacks": ("raise UsageError(", "raise KeyError(", "test_a_mistake_is_refused"),
    "names no input": ('f"--log-root {arguments.log_root}: ', 'f"', "test_a_mistake_is_refused"),
}


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("imported")]


def test_a_correct_command_passes(judge):
    assert judge("command") == {}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_command_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG[fault]
    failed = judge("command", (old, new))
    # A class that is too heavy is so wherever it is imported.
    assert list(failed)[:1] == [expected]
    assert set(failed) - {expected} <= {"test_its_help_is_light_and_whole"}
