"""What the tests of the suite share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("mujoco_playground") is None:
    collect_ignore_glob = ["test_*.py"]

# A task in a module of the user's is asked for as "module:Name": here is one such module.
sys.path.append(str(Path(__file__).parent))
