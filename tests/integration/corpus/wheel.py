"""Isaac Lab's own sources, from its wheel: fetched where there is an index, never kept."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import zipfile
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

__all__ = ["VERSIONS", "Bare", "Missing", "fetched", "tasks_of", "unpacked"]

VERSIONS = ("2.3.2.post1", "3.0.0")
PYTHONS = {"2": "3.11", "3": "3.12"}
"""The Python of each major version."""
TIMEOUT = 120
"""Seconds: the wheels have 3 MB and 12 MB."""


class Missing(Exception):
    """The wheel cannot be fetched here."""


def unpacked(folder: Path, version: str) -> Path:
    """Return the folder that holds a version's packages; Isaac Lab 2 has each in one of its own.

    Raises:
        Missing: there is no index, or pip cannot be used.
    """
    found = fetched(folder, version)
    return found / "isaaclab" / "source" if version.startswith("2") else found


def tasks_of(source: Path) -> Path:
    package = source / "isaaclab_tasks"
    return package / "isaaclab_tasks" if (package / "isaaclab_tasks").is_dir() else package


def fetched(folder: Path, version: str) -> Path:
    """Return the folder with a version's wheel, unpacked; several processes may ask at once.

    Raises:
        Missing: there is no index, or pip cannot be used.
    """
    folder = folder / version
    folder.mkdir(parents=True, exist_ok=True)
    failure, unpacked = folder / "failure", folder / "wheel"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not failure.exists() and not unpacked.is_dir():
            failure.write_text(_fetch(folder, version))
        if failure.exists() and failure.read_text():
            raise Missing(failure.read_text())
    return unpacked


def _fetch(folder: Path, version: str) -> str:
    """Download and unpack; return the reason for a failure, or nothing."""
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        # Only its text is read: it need not be for this Python.
        *("--no-deps", "--only-binary=:all:", f"--python-version={PYTHONS[version[0]]}"),
        *("--platform=manylinux_2_35_x86_64", "--retries=1", "--timeout=15"),
        *("--dest", str(folder), f"isaaclab=={version}"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return f"no index gave isaaclab {version} within {TIMEOUT} s"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        return f"no index has isaaclab {version}: {' '.join(last)}"
    (path,) = folder.glob("isaaclab-*.whl")
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(folder / "wheel")
    return ""


class Bare:
    """Finds the wheel's packages without running their `__init__`, which needs Isaac Sim.

    What is imported from them is a module, found beside its package's `__init__`.
    """

    def __init__(self, source: Path) -> None:
        self._source = source

    def find_spec(self, name, path=None, target=None):
        """Return a package as one without code, and any other module as it is."""
        if not name.startswith("isaaclab"):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.submodule_search_locations is None:
            return spec
        if not Path(spec.submodule_search_locations[0]).is_relative_to(self._source):
            return spec
        bare = ModuleSpec(name, None, is_package=True)
        bare.submodule_search_locations = list(spec.submodule_search_locations)
        return bare
