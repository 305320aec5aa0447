"""The kit of clusters: the template passes, each wrong one fails the test of its fault alone."""

from __future__ import annotations

import os

import pytest

FIRST = 'environ.get(FIRST, "127.0.0.1")'

WRONG = {
    "imports numpy": (
        "from collections.abc import Mapping",
        "import numpy; from collections.abc import Mapping",
        "test_declaring_is_light",
    ),
    "miscounts": ("node_rank=node", "node_rank=node + 1", "test_a_process_finds_its_place"),
    "names no variables": ("variables=NAMES", "variables=()", "test_a_process_finds_its_place"),
    "reads the process's variables": (
        FIRST,
        f"__import__('os').{FIRST}",
        "test_it_is_a_pure_function",
    ),
    "changes the process's variables": (
        FIRST,
        f"{FIRST}; __import__('os').environ['MASTER_ADDR'] = 'found'",
        "test_it_is_a_pure_function",
    ),
    "guesses": (
        FIRST,
        f'environ.get("MASTER_ADDR") or {FIRST}',
        "test_it_guesses_nothing_from_other_variables",
    ),
    "trains alone where numbers are wrong": (
        "nodes, node = read_numbers(environ, *NAMES)",
        "numbers = [environ.get(name, '') for name in NAMES]\n"
        "    if not all(map(str.isdecimal, numbers)): return None\n"
        "    nodes, node = map(int, numbers)",
        "test_incomplete_variables_are_understood",
    ),
    "raises a KeyError": (FIRST, "environ[FIRST]", "test_incomplete_variables_are_understood"),
    "does not show the variable": (
        "    first = ",
        "    from rltrain.errors import UsageError\n"
        '    if not environ.get(FIRST): raise UsageError("where is node 0?")\n'
        "    first = ",
        "test_incomplete_variables_are_understood",
    ),
    "knows no single node": ("nodes == 1", "nodes == 0", "test_a_process_alone_has_no_place"),
}


def test_a_correct_cluster_passes(judge):
    assert judge("cluster") == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_cluster_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG[fault]
    assert list(judge("cluster", (old, new))) == [expected]
    assert "MASTER_ADDR" not in os.environ, "another test would take this process for a rank"
