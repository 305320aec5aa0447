"""The adapted agents of skrl for jax."""

from __future__ import annotations

from rltrain_skrl.jax import off_policy, on_policy
from rltrain_skrl.runner import by_algorithm

AGENTS = by_algorithm(on_policy, off_policy)
