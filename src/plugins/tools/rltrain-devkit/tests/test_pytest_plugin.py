"""A plugin that is not installed is tested."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rltrain_devkit.new import files_of

TESTS = """
import rltrain_mine.plugin
from rltrain_devkit import LibraryConformance

PLUGINS = [rltrain_mine.plugin]
OPTIONS = {
    "library": "mine", "plugins": PLUGINS, "max_iterations": 2, "num_envs": 4, "agent": {"steps": 4}
}

def test_fake_ranks(fake_world, tmp_path):
    runs = fake_world(2).train(**OPTIONS)
    assert [run.result.iterations for run in runs] == [2, 2]
    assert (tmp_path / "logs").is_dir()

def test_one_process(rltrain_run):
    run = rltrain_run(**OPTIONS)
    assert [each.iteration for each in run.scalars] == [1, 2]

def test_real_ranks(rltrain_run):
    run = rltrain_run(ranks=2, **OPTIONS)
    assert run.outcome == "finished"
    assert len(run.scalars[-1].fps) == 2

class TestMine(LibraryConformance):
    library = "mine"
    plugins = PLUGINS
    agent = {"steps": 4}
    num_envs = 4
"""


@pytest.mark.slow
def test_what_is_not_installed_is_tested_by_fixtures_a_kit_and_real_ranks(pytester):
    package = pytester.mkpydir("rltrain_mine")
    for file, text in files_of("mine", "library").items():
        if file.startswith(package.name):
            (pytester.path / file).write_text(text)
    pytester.makepyfile(test_mine=TESTS)
    words = ("-p", "rltrain_devkit.pytest_plugin", "-p", "no:cacheprovider")
    # Of its own, because libraries cannot be imported twice in a process.
    result = pytester.runpytest_subprocess(*words, timeout=250)
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] > 23


def test_pytest_imports_nothing_heavy_with_it():
    code = "import rltrain_devkit.pytest_plugin, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not {"numpy", "torch", "gymnasium", "rltrain.plan"} & set(done.stdout.split())
