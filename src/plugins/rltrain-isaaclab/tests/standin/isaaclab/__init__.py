"""Stands in for Isaac Lab in tests: the same faces, small physics in torch, no Isaac Sim.

It is of the generation that STANDIN_GENERATION says: 2 as Isaac Lab 2.3, where nothing that makes
environments can be imported before the app runs, or 3 as Isaac Lab 3, where the configuration comes
first. How the real one behaves was read in its sources; none of them are here.
"""

from __future__ import annotations

import os

GENERATION = int(os.environ.get("STANDIN_GENERATION", "2"))
