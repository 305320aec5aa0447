"""What `rltrain new` writes, from its author's view: an install, its own test, a run."""

from __future__ import annotations

import email
import json
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from helpers import run

from rltrain.cli.main import main

pytestmark = pytest.mark.slow

NAME = "fresh-one"
PACKAGE = "rltrain_fresh_one"


@pytest.fixture
def written(tmp_path, capsys):

    def write(kind: str) -> Path:
        assert main(["new", NAME, "--kind", kind, "--into", str(tmp_path)]) == 0
        return tmp_path / "rltrain-fresh-one"

    return write


def test_it_installs_is_listed_and_trains_two_ranks(written, tmp_path):
    folder, home = written("library"), tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", str(home), cwd=tmp_path)
    # The rest of rltrain is where these tests found it; only the new distribution is installed.
    (packages,) = home.glob("lib/python*/site-packages")
    ours = sysconfig.get_path("purelib")
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    python = str(home / "bin" / "python")
    run(
        *(sys.executable, "-m", "uv", "pip", "install", "--python", python, "--quiet"),
        *("--no-deps", "--no-build-isolation", "-e", str(folder)),
        cwd=tmp_path,
    )

    listed = json.loads(run(python, "-m", "rltrain", "plugins", "--json", cwd=tmp_path))
    (row,) = (row for row in listed if row["name"] == NAME)
    assert (row["kind"], row["status"]) == ("library", "ready")
    assert row["distribution"] == "rltrain-fresh-one"

    tested = run(python, "-m", "pytest", "-q", "-k", "spec or light", str(folder), cwd=tmp_path)
    assert " passed" in tested

    job = ("--library", NAME, "--distributed", "--nproc-per-node", "2", "--max-iterations", "2")
    shown = run(python, "-m", "rltrain", *job, cwd=tmp_path)
    assert "iteration 2/2" in shown
    assert list(tmp_path.glob(f"logs/{NAME}/**/checkpoints/2.pt"))


def test_it_is_built_with_its_license_and_readme(written, tmp_path):
    folder = written("suite")
    run(sys.executable, "-m", "build", "--no-isolation", cwd=folder)
    (wheel,) = folder.glob("dist/*.whl")
    archive = zipfile.ZipFile(wheel)
    info = f"{PACKAGE}-0.1.0.dist-info"
    metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
    assert metadata["License-Expression"] == "MIT"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# rltrain-fresh-one\n")
    assert archive.read(f"{info}/licenses/LICENSE").startswith(b"MIT License")
    assert all(name.startswith((f"{PACKAGE}/", info)) for name in archive.namelist())
    (source,) = folder.glob("dist/*.tar.gz")
    with tarfile.open(source) as archived:
        files = {name.partition("/")[2] for name in archived.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "tests/test_conformance.py"} <= files
