"""Skips the tests where Playground is not installed, and makes a module with a task importable."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("mujoco_playground") is None:
    collect_ignore_glob = ["test_*.py"]

# Makes playground_point importable, for the task "playground_point:Point".
sys.path.append(str(Path(__file__).parent))
