"""The pool of moments of torch tensors."""

from __future__ import annotations

from rltrain_skrl import moment_pool
from rltrain_torch.moments import pool_moments

__all__ = ["MomentPool"]


class MomentPool(moment_pool.MomentPool):
    """Pools batches of torch tensors; see `rltrain_skrl.moment_pool`."""

    pool_moments = staticmethod(pool_moments)
