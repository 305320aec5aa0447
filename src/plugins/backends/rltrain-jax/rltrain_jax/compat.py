"""Differences between the supported versions of jax (0.6 to 0.12), with the reasons."""

from __future__ import annotations

import jax

try:
    from jax import enable_x64
except ImportError:  # Where older versions have it.
    from jax.experimental import enable_x64  # type: ignore[attr-defined,no-redef]
try:
    from jax import shard_map
except ImportError:  # As above.
    from jax.experimental.shard_map import shard_map  # type: ignore[no-redef]

__all__ = ["LEAVES_TOGETHER", "PREEMPTION", "RECOVERABILITY", "enable_x64", "shard_map"]

PREEMPTION = "jax_enable_preemption_service"
"""Older versions do not have this option, and always run the service."""

RECOVERABILITY = "jax_enable_recoverability"
"""Older versions do not have this option: there jax ends the peers of a rank that failed."""

LEAVES_TOGETHER = not hasattr(jax.config, RECOVERABILITY)
"""Whether `jax.distributed.shutdown` waits until every rank has called it."""
