"""What CI draws of tests that are many alike, and what it may not skip."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ALIKE = """
import pytest

@pytest.mark.sample
@pytest.mark.parametrize("number", range(40))
def test_alike(number):
    pass

@pytest.mark.scenario
def test_long():
    pass

@pytest.mark.scenario
def test_longer():
    pass

def test_other():
    pass
"""

FILE = """
import pytest

@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("name", "abcd")
def test_cases(name, number):
    pass

def test_one():
    pass

def test_two():
    pass

def test_three():
    pass

@pytest.mark.scenario
def test_long():
    pass
"""

CORE = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_core(number):
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
    """Run tests with this repository's options of pytest; return their outcomes and the output."""

    def run_tests(*options):
        command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider"]
        # `tests/core`, of pythonpath, has a conftest of its own.
        command += ["-o", "pythonpath=", "-vv", "--rootdir", str(tmp_path)]
        command += ["-c", "pyproject.toml", *options]
        done = subprocess.run(
            [*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=100
        )
        lines = [line.partition("::")[2].split() for line in done.stdout.splitlines()]
        return {line[0]: line[1] for line in lines if len(line) > 1 and line[1].isupper()}, done

    return run_tests


@pytest.fixture
def ours(pytestconfig):
    """The module that draws."""
    plugins = pytestconfig.pluginmanager.get_plugins()
    (ours,) = [each for each in plugins if getattr(each, "__file__", "") == f"{ROOT}/conftest.py"]
    return ours


def test_over_commits_each_test_is_drawn_with_the_same_probability(ours):
    tests = [f"tests/test_pairs.py::test_alike[{number}]" for number in range(200)]
    commits = [f"{commit:040x}" for commit in range(400)]
    times = Counter(test for commit in commits for test in ours.drawn(commit, 0.25, tests))
    assert set(times) == set(tests)
    # Beyond six standard deviations; and the sum of all, likewise.
    assert all(100 - 52 < count < 100 + 52 for count in times.values())
    assert abs(sum(times.values()) - 20_000) < 740
    assert ours.drawn(commits[0], 1.0, tests) == set(tests)


def test_of_each_test_a_case_is_drawn_and_over_commits_every_one(ours):
    tests = {f"test_a.py::test_{name}[{n}]": name for name in "ab" for n in range(5)}
    commits = [f"{commit:040x}" for commit in range(400)]
    times = Counter()
    for commit in commits:
        found = ours.drawn_cases(commit, 0.15, tests)
        assert found >= ours.drawn(commit, 0.15, tests)
        assert {tests[case] for case in found} == {"a", "b"}
        times.update(found)
    assert set(times) == set(tests)
    # With a probability of 0.15 + 0.85**5 / 5, beyond six standard deviations.
    assert all(96 - 52 < count < 96 + 52 for count in times.values())


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [("", 0), ("<skipped message='no'/>", 1), ("<failure/>", 1)],
    ids=["passed", "skipped", "failed"],
)
def test_a_version_set_of_which_nothing_ran_fails(tmp_path, monkeypatch, outcomes, status):
    table = runpy.run_path(str(ROOT / "tests" / "integration" / "version_table.py"))
    here = dict.fromkeys(("Python", *table["SHOWN"], *table["LIBRARIES"].values()), "1")
    monkeypatch.setitem(table["main"].__globals__, "versions", lambda name: here)
    (tmp_path / "newest.ranks.xml").write_text(f"<s><testcase>{outcomes}</testcase></s>")
    assert table["main"](tmp_path) == status


@pytest.mark.slow
def test_the_drawn_tests_run_and_are_listed(run, ours, tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "test_core.py").write_text(CORE)
    (tmp_path / "test_alike.py").write_text(ALIKE)
    alike = {f"test_alike.py::test_alike[{number}]": "alike" for number in range(40)}
    core = {f"core/test_core.py::test_core[{number}]": "core" for number in range(20)}
    long = {f"test_alike.py::test_{name}": "scenario" for name in ("long", "longer")}
    sample, cases = ("--sample", "abc:0.25:core"), ("--cases", "abc:0.01")
    first = ours.drawn("abc", 0.25, alike | core)
    for options, of, expected, others in (
        (sample, 60, first, 3),
        (cases, 62, ours.drawn_cases("abc", 0.01, alike | core | long), 1),
        (sample + cases, 62, first | ours.drawn_cases("abc", 0.01, long), 1),
    ):
        _, done = run(*options, "--numprocesses", "2")
        what = " ".join(options[1::2])
        _, summary = done.stdout.split(f"sample {what}: {len(expected)} of {of} tests")
        assert set(re.findall(r"^\S+::\S+$", summary, re.MULTILINE)) == expected
        assert f"{len(expected) + others} passed" in summary


@pytest.mark.slow
def test_of_each_file_tests_are_drawn_with_all_their_cases(run, ours, tmp_path):
    for name in ("first", "other"):
        (tmp_path / f"test_{name}.py").write_text(FILE)
    files = {
        f"test_{name}.py::test_{test}": name
        for name in ("first", "other")
        for test in ("cases", "one", "two", "three")
    }
    # By this seed, one file's only test is one of many cases.
    expected = ours.drawn_cases("e", 0.01, files)
    assert {test.partition("::")[2] for test in expected} == {"test_cases", "test_one"}
    _, done = run("--per-file", "e:0.01")
    _, summary = done.stdout.split("sample e:0.01: 13 of 30 tests")
    shown = re.findall(r"^(\S+?)(?:\[\S+)?$", summary, re.MULTILINE)
    assert {test for test in shown if "::" in test} == expected
    assert "15 passed" in summary, "scenarios are drawn as such"


@pytest.mark.slow
def test_what_is_missing_fails_where_nothing_may_be(run, tmp_path):
    (tmp_path / "test_skipped.py").write_text(SKIPPED)
    (tmp_path / "test_file.py").write_text(SKIPPED_FILE)
    shown, _ = run()
    assert set(shown.values()) == {"SKIPPED"}
    shown, done = run("--complete", "--continue-on-collection-errors")
    assert shown == {
        "test_machine": "FAILED",
        "test_package": "FAILED",
        "test_condition": "ERROR",
        "test_on_the_list": "SKIPPED",
        "test_rule": "SKIPPED",
    }
    assert "no browser here" in done.stdout
    assert "2 failed, 2 skipped" in done.stdout
    assert "2 errors" in done.stdout


def test_what_takes_seconds_is_there(ours):
    for name in ours.of_seconds():
        path, *classes, function = name.split("::")
        text = (ROOT / path).read_text()
        # Rules of a kit are in classes, which a loop may make.
        gone = f"{name}: run `make test SAMPLE=0:1 PER_FILE=0:1`, then seconds.py"
        assert classes or function in text, gone
