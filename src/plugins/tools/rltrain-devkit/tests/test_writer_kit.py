"""The kits of writers and observers: the template passes, each wrong one fails its test."""

from __future__ import annotations

import pytest

LINE = "        line = {"

WRONG_WRITERS = {
    "imports numpy": (
        "from collections.abc import Iterable",
        "import numpy; from collections.abc import Iterable",
        "test_declaring_is_light",
    ),
    "takes no media": (
        LINE,
        f"        if type(record).__name__ == 'Media': 1 / 0\n{LINE}",
        "test_a_whole_run_is_taken",
    ),
    "knows all records": (
        LINE,
        f"        assert 'Later' not in type(record).__name__\n{LINE}",
        "test_an_unknown_record_is_passed_over",
    ),
    "counts": (
        "json.dumps(line)",
        "json.dumps(line, allow_nan=False)",
        "test_strange_numbers_are_taken",
    ),
    "believes that runs begin": (
        "if self._path is None:",
        "if False:",
        "test_a_run_that_never_began_is_taken",
    ),
    "writes where it is": (
        "Path(record.run_dir, self._file)",
        "Path(self._file)",
        "test_files_are_below_the_run_folder",
    ),
}

WRONG_OBSERVERS = {
    "imports torch": (
        "from collections.abc import Iterable",
        "import torch; from collections.abc import Iterable",
        "test_declaring_is_light",
    ),
    "draws a number": (
        "return averaged",
        "import torch; torch.rand(1); return averaged",
        "test_it_changes_nothing",
    ),
}


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("imported")]


@pytest.mark.parametrize("kind", ["writer", "observer"])
def test_a_correct_plugin_passes(judge, kind):
    assert judge(kind) == {}


@pytest.mark.parametrize("fault", WRONG_WRITERS)
def test_a_wrong_writer_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG_WRITERS[fault]
    assert list(judge("writer", (old, new))) == [expected]


@pytest.mark.parametrize("fault", WRONG_OBSERVERS)
def test_a_wrong_observer_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG_OBSERVERS[fault]
    assert list(judge("observer", (old, new))) == [expected]


def test_an_observer_is_given_its_options(judge):
    patches = judge.with_options("    @hookimpl(wrapper=True)\n")
    given = "    observer =", '    options = {"$name": {"by": 2}}\n    observer ='
    assert judge("observer", *patches, given) == {}


def test_an_observer_that_does_not_return_what_it_wraps_fails(judge):
    failed = judge("observer", ("return timed", "return None"))
    assert "test_every_rank_trains_to_the_end" in failed
