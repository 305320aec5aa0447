"""Notes when a Python process begins, is forked, and imports; for `startup.py --trace`.

It is copied to a `sitecustomize.py`, which Python imports before everything else. Each process
appends events in the Trace Event Format to a file of its own in the folder STARTUP_TRACE.
"""

from __future__ import annotations

import importlib.abc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

SHORTEST = 0.005
"""Seconds. Imports that are shorter are not noted."""


def now() -> float:
    """Return the time in microseconds, from a clock that all processes share."""
    return time.monotonic_ns() / 1000


def note(**event: Any) -> None:
    """Append an event of this process."""
    with open(f"{FOLDER}/{os.getpid()}.jsonl", "a") as file:
        file.write(json.dumps({"pid": os.getpid(), "tid": 0, "cat": "import", **event}) + "\n")


def begun(how: str) -> None:
    """Note that this process is there."""
    command = Path("/proc/self/cmdline").read_bytes().decode().replace("\0", " ")
    name = f"{how}: {command}"[:120]
    note(ph="M", name="process_name", args={"name": name})
    note(ph="i", name=how, ts=now(), s="p")


class Timed(importlib.abc.Loader):
    """A module's loader, timed."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: Any) -> Any:
        """Create a module, as the other loader does."""
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Run a module, and note how long it takes."""
        before = now()
        # Modules look for the loader of their own package: give them the true one.
        module.__spec__.loader = module.__loader__ = self.loader
        try:
            self.loader.exec_module(module)
        finally:
            took = now() - before
            if took >= SHORTEST * 1e6:
                note(ph="X", name=module.__name__, ts=before, dur=took)


class Finder(importlib.abc.MetaPathFinder):
    """Finds what the finders after it find, with timed loaders."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return what the other finders find."""
        for finder in sys.meta_path:
            found: Any = finder
            spec = None if finder is self else found.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = Timed(spec.loader)
                return spec
        return None


FOLDER = os.environ.get("STARTUP_TRACE")
if FOLDER:
    begun("started")
    os.register_at_fork(after_in_child=lambda: begun("forked"))
    sys.meta_path.insert(0, Finder())
