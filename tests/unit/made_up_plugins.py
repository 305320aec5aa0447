"""Fixtures: plugins for tests, distributions made on the fly and one that trains a stub."""

from __future__ import annotations

import fnmatch
import importlib
import itertools
import os
import re
import sys
import textwrap
from pathlib import Path

import pytest

from rltrain.cli.main import main
from rltrain.plugins.registry import discover
from rltrain.specs import ClusterSpec

_NUMBER = itertools.count()


class Site:
    """A folder on `sys.path`, here and in processes started from here, with distributions in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def install(
        self,
        name: str,
        source: str | None = None,
        *,
        point: str | None = None,
        module: str | None = None,
        version: str = "1.0",
        requires: tuple[str, ...] = (),
    ) -> str:
        """Install a distribution whose entry point names a module with this source; return it."""
        if module is None:
            module = f"fixture_{next(_NUMBER)}_{name.replace('-', '_')}"
            (self.path / f"{module}.py").write_text(textwrap.dedent(source or ""))
        info = self.path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {text}" for text in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        if source is not None or point is not None:
            (info / "entry_points.txt").write_text(f"[rltrain]\n{point or name} = {module}\n")
        importlib.invalidate_caches()
        return module

    def loaded(self, module: str) -> bool:
        return module in sys.modules


@pytest.fixture(scope="session")
def hidden_variables():
    """A pattern of the environment variables that tests must not see."""
    of_clusters = [name for spec in discover().all(ClusterSpec) for name in spec.variables]
    hidden = ("RLTRAIN_*", "STUB_*", "CUDA_VISIBLE*", *of_clusters)
    return re.compile("|".join(map(fnmatch.translate, hidden)))


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path_factory, hidden_variables):
    """Isolate tests from the environment variables and the user config of the machine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("home")))
    for name in filter(hidden_variables.match, list(os.environ)):
        monkeypatch.delenv(name)


def _on_path(folder: Path, monkeypatch) -> None:
    """Have plugins in a folder found here and by processes started from here."""
    from rltrain.storage.manifest import versions

    versions.cache_clear()
    monkeypatch.syspath_prepend(str(folder))
    paths = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    _on_path(folder, monkeypatch)
    yield Site(folder)
    for module in [name for name in sys.modules if name.startswith("fixture_")]:
        del sys.modules[module]
    importlib.invalidate_caches()


@pytest.fixture
def stub(tmp_path_factory, tmp_path, monkeypatch):
    """The plugin of `stub_plugin`, installed: its module, with an empty list of events.

    The working folder is `tmp_path / "work"`, and empty.
    """
    import stub_plugin

    # One folder for all tests: the metadata in it is read once.
    folder = tmp_path_factory.getbasetemp() / "stub"
    if not folder.exists():
        folder.mkdir()
        Site(folder).install("rltrain-stub", point="stub", module="stub_plugin")
    _on_path(folder, monkeypatch)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    stub_plugin.EVENTS.clear()
    stub_plugin.RECORDS.clear()
    return stub_plugin


@pytest.fixture
def cli(stub, capsys):
    def run(*words: str):
        status = main(words)
        out, err = capsys.readouterr()
        return status, out, err

    return run
