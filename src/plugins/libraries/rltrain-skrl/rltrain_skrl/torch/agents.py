"""The adapted agents of skrl for torch."""

from __future__ import annotations

from rltrain_skrl.runner import by_algorithm
from rltrain_skrl.torch import off_policy, on_policy

AGENTS = by_algorithm(on_policy, off_policy)
