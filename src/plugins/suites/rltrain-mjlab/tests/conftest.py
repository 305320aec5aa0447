"""Skips the tests where mjlab is not installed."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("mjlab") is None:  # `make test-mjlab` installs it.
    collect_ignore_glob = ["test_*.py"]
