"""The kit of clusters: a correct one passes, each wrong one fails the test of its fault alone."""

from __future__ import annotations

import os

import pytest

CLUSTER = """
import os
from rltrain import hookimpl
from rltrain.clusters import StartedNode, read_numbers
from rltrain.specs import ClusterSpec

NAMES = ("MINE_NODES", "MINE_NODE")


@hookimpl
def rltrain_provides():
    return [ClusterSpec(name="judged", find=find, order=30, variables=("MINE_*",))]


def find(environ):
    if not environ.get("MINE_NODES"):
        return None
    nodes, node = read_numbers(environ, *NAMES)
    if nodes == 1:
        return None
    first = environ.get("MINE_FIRST")
    return StartedNode(node_rank=node, num_nodes=nodes, master_addr=first, variables=NAMES)
"""

OF_CLUSTER = """
from rltrain_devkit import ClusterConformance


class TestJudged(ClusterConformance):
    cluster = "judged"
    environ = {"MINE_NODES": "2", "MINE_NODE": "1", "MINE_FIRST": "node-0"}
    alone = [{"MINE_NODES": "1", "MINE_NODE": "0"}]
"""

WRONG = {
    "imports numpy": ("import os", "import os, numpy", "test_declaring_is_light"),
    "miscounts": ("node_rank=node", "node_rank=node + 1", "test_a_process_finds_its_place"),
    "names no variables": (
        "master_addr=first, variables=NAMES",
        "master_addr=first, variables=()",
        "test_a_process_finds_its_place",
    ),
    "reads the process's variables": (
        'environ.get("MINE_FIRST")',
        'os.environ.get("MINE_FIRST")',
        "test_it_is_a_pure_function",
    ),
    "changes the process's variables": (
        'first = environ.get("MINE_FIRST")',
        'first = environ.get("MINE_FIRST"); os.environ["MASTER_ADDR"] = "found"',
        "test_it_is_a_pure_function",
    ),
    "guesses": (
        'environ.get("MINE_FIRST")',
        'environ.get("MASTER_ADDR") or environ.get("MINE_FIRST")',
        "test_it_guesses_nothing_from_other_variables",
    ),
    "trains alone where numbers are wrong": (
        "nodes, node = read_numbers(environ, *NAMES)",
        "numbers = [environ.get(name, '') for name in NAMES]\n"
        "    if not all(map(str.isdecimal, numbers)): return None\n"
        "    nodes, node = map(int, numbers)",
        "test_incomplete_variables_are_understood",
    ),
    "raises a KeyError": (
        'environ.get("MINE_FIRST")',
        'environ["MINE_FIRST"]',
        "test_incomplete_variables_are_understood",
    ),
    "does not show the variable": (
        "first = ",
        "from rltrain.errors import UsageError\n"
        '    if not environ.get("MINE_FIRST"): raise UsageError("where is node 0?")\n'
        "    first = ",
        "test_incomplete_variables_are_understood",
    ),
    "knows no single node": (
        "if nodes == 1:",
        "if nodes == 0:",
        "test_a_process_alone_has_no_place",
    ),
}


def test_a_correct_cluster_passes(judge):
    assert judge(CLUSTER, OF_CLUSTER) == {}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_cluster_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG[fault]
    assert CLUSTER.count(old) == 1
    assert list(judge(CLUSTER.replace(old, new), OF_CLUSTER)) == [expected]
    assert "MASTER_ADDR" not in os.environ, "another test would take this process for a rank"
