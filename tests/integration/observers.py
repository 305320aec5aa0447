"""What fake worlds keep for each rank."""

from __future__ import annotations

RANK_LOCAL = {"skrl": ["skrl:config.torch", "skrl:config.jax"]}
"""By library, what a fake world must keep for each rank."""
