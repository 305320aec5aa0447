"""What the tests of the suite share."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("mjlab") is None:  # `make test-mjlab` has an environment with it.
    collect_ignore_glob = ["test_*.py"]
