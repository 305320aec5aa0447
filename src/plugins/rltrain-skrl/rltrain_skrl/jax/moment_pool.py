"""The pool of moments of jax arrays."""

from __future__ import annotations

from rltrain_jax.moments import pool_moments
from rltrain_skrl import moment_pool

__all__ = ["MomentPool"]


class MomentPool(moment_pool.MomentPool):
    """Pools batches of jax arrays; see `rltrain_skrl.moment_pool`."""

    pool_moments = staticmethod(pool_moments)
