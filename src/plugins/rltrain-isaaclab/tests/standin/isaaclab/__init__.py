"""Stands in for Isaac Lab in tests: the same interfaces, small physics in torch, no Isaac Sim.

STANDIN_GENERATION selects the generation: 2 is like Isaac Lab 2.3, where nothing that makes
environments can be imported before the app runs; 3 is like Isaac Lab 3, where the configuration is
loaded first. It was written after reading Isaac Lab's sources, and contains none of them.
"""

from __future__ import annotations

import os

GENERATION = int(os.environ.get("STANDIN_GENERATION", "2"))
