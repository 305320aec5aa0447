"""The adapted agents of skrl for jax."""

from __future__ import annotations

from rltrain_skrl.agent import by_algorithm
from rltrain_skrl.jax import off_policy, on_policy

__all__ = ["AGENTS"]

AGENTS = by_algorithm(on_policy, off_policy)
