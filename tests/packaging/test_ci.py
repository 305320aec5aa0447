"""CI runs the slow tests in turns, and skips nothing that it could run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SLOW = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_slow(number):
    pass

@pytest.mark.slow(turns=4)
@pytest.mark.parametrize("number", range(40))
def test_often(number):
    pass

@pytest.mark.slow(turns=1)
def test_each_time():
    pass

def test_fast():
    pass
"""

SKIPPED = """
import pytest
from rltrain_devkit.kits import rules

def test_machine():
    pytest.skip("no browser here")

def test_package():
    pytest.importorskip("no_such_package")

@pytest.mark.skipif(True, reason="on Tuesdays")
def test_condition():
    pass

@pytest.mark.skipif(True, reason="needs two GPUs")
def test_on_the_list():
    pass

def test_rule():
    rules.skip("the plugin cannot")
"""

SKIPPED_FILE = """
import pytest

pytest.importorskip("no_such_package")
"""


@pytest.fixture
def run(tmp_path):
    """Run tests with this repository's hooks of pytest; return their outcomes and the output."""

    def run_tests(*options, **variables):
        command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider"]
        # `tests/unit`, of pythonpath, has a conftest of its own.
        command += ["-o", "pythonpath=", "-vv", "--rootdir", str(tmp_path)]
        command += ["-c", "pyproject.toml", *options, str(tmp_path)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=100,
        )
        found = re.findall(r"::(\S+) ([A-Z]+)", done.stdout)
        return dict(found), f"{done.stdout}status {done.returncode}"

    return run_tests


@pytest.fixture
def ours(pytestconfig):
    plugins = pytestconfig.pluginmanager.get_plugins()
    (ours,) = [each for each in plugins if getattr(each, "__file__", "") == f"{ROOT}/conftest.py"]
    return ours


@pytest.mark.parametrize("turns", [1, 2, 4, 10])
def test_each_test_runs_once_in_its_number_of_commits(ours, turns):
    tests = [f"tests/test_pairs.py::test_alike[{number}]" for number in range(400)]
    for test in tests:
        ages = [ours.commits_ago(test, turns, commit) for commit in range(1237, 1257)]
        assert ages.count(0) == 20 // turns
        first = ages.index(0)
        assert ages[first : first + turns] == list(range(turns))
    ran = sum(ours.commits_ago(test, turns, 1237) == 0 for test in tests)
    assert 0.5 < ran * turns / len(tests) < 1.5


@pytest.mark.slow
def test_slow_tests_run_in_turns_on_every_worker_alike(run, ours, tmp_path):
    (tmp_path / "test_slow.py").write_text(SLOW)
    shown, printed = run(RLTRAIN_TEST_TURN="7")
    turns = {"test_slow": ours.TURNS, "test_often": 4}
    expected = {
        f"{test}[{number}]"
        for test, each in turns.items()
        for number in range(40)
        if ours.commits_ago(f"test_slow.py::{test}[{number}]", each, 7) == 0
    }
    assert set(shown) == expected | {"test_each_time", "test_fast"}
    assert f"{len(shown) - 1} slow tests ran in this turn" in printed
    assert "slow tests were left out: last run 9 commits ago" in printed
    _, by_workers = run("--numprocesses", "2", RLTRAIN_TEST_TURN="7")
    assert f"{len(shown)} passed" in by_workers
    left_out = [line for line in printed.splitlines() if "slow tests" in line]
    assert left_out == [line for line in by_workers.splitlines() if "slow tests" in line]


@pytest.mark.slow
def test_what_is_missing_fails_where_nothing_may_be(run, tmp_path):
    (tmp_path / "test_skipped.py").write_text(SKIPPED)
    assert run("-k", "on_the_list")[1].endswith("status 0")
    assert run("-k", "on_the_list", RLTRAIN_TEST_COMPLETE="1")[1].endswith("status 1")
    (tmp_path / "test_file.py").write_text(SKIPPED_FILE)
    shown, _ = run()
    assert set(shown.values()) == {"SKIPPED"}
    shown, printed = run("--continue-on-collection-errors", RLTRAIN_TEST_COMPLETE="1")
    assert shown == {
        "test_machine": "FAILED",
        "test_package": "FAILED",
        "test_condition": "ERROR",
        "test_on_the_list": "SKIPPED",
        "test_rule": "SKIPPED",
    }
    assert "no browser here" in printed
    assert "2 failed, 2 skipped" in printed
    assert "2 errors" in printed
