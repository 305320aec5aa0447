"""The guides are followed word for word: their files are written, their commands are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from helpers import run

import rltrain_devkit

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "testing.md").read_text()

pytestmark = pytest.mark.slow


def blocks(page):
    return re.findall(r"^```(\w+)\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_testing_guide_pass(tmp_path):
    tests = "\n".join(text for language, text in blocks("testing.md") if language == "python")
    assert tests.count("def test_") == 7
    (tmp_path / "test_guide.py").write_text(tests)
    words = ["-q", "-p", "no:cacheprovider", "test_guide.py"]
    run(sys.executable, "-m", "pytest", *words, cwd=tmp_path, timeout=200)


def test_the_cluster_of_the_guide_keeps_the_rules(tmp_path):
    source, test = (text for language, text in blocks("clusters.md") if language == "python")
    (tmp_path / "lepton.py").write_text(source)
    (tmp_path / "test_lepton.py").write_text(f"from lepton import find\n{test}")
    words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_lepton.py")
    assert "7 passed" in run(*words, cwd=tmp_path, timeout=200, RLTRAIN_MODULES="lepton")


def test_the_kits_are_set_by_the_attributes_that_the_guide_names():
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)
    named = {kit: set(re.findall(r"`(\w+)`", required + more)) for kit, required, more in rows}
    assert len(named) == 9
    for kit, attributes in named.items():
        classes = getattr(rltrain_devkit, kit).__mro__
        settable = {name for each in classes for name in vars(each).get("__annotations__", {})}
        assert attributes == {name for name in settable if not name.startswith("_")}


@pytest.fixture
def reader(tmp_path):
    home = tmp_path / "environment"
    # Its own pip, so that `pip install` in a guide installs there.
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=120)
    (packages,) = home.glob("lib/python*/site-packages")
    ours = sysconfig.get_path("purelib")
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    command = home / "bin" / "rltrain"
    command.write_text(f'#!/bin/sh\nexec "{home}/bin/python" -m rltrain "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path),  # The guide puts its library here.
        # All dependencies are already installed.
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip inverts the meaning of this variable.
    }


@pytest.mark.timeout(400)
def test_the_tutorial_goes_from_nothing_to_two_ranks(tmp_path, reader):
    shown = ""
    for language, text in blocks("publish-a-plugin.md"):
        if language == "python":
            path = re.match(r"# (\S+\.py)\n", text)
            assert path, f"a block that says no file: {text[:80]}"
            (tmp_path / path[1]).write_text(text)
        elif language == "sh":
            done = subprocess.run(
                text,
                shell=True,
                cwd=tmp_path,
                env=reader,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=200,
                check=False,
            )
            shown = done.stdout
        elif language == "text":
            for line in text.splitlines():
                assert line in shown, shown[-6000:]
    assert done.returncode == 0, shown
    assert list(tmp_path.glob("logs/pocketrl/**/checkpoints/20.pt"))
