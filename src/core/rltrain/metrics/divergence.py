"""The check that ranks have not diverged."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from rltrain.errors import DivergenceError
from rltrain.types import Fingerprints, ProcessGroup

__all__ = ["check_divergence"]


def check_divergence(
    group: ProcessGroup, watched: Mapping[str, Fingerprints], iteration: int
) -> None:
    """Check that the watched tensors are equal on all ranks. Collective.

    Normally only two numbers are reduced: the minimum and maximum checksum of all fingerprints.
    The fingerprints themselves are gathered only if these differ.

    Args:
        group: the process group.
        watched: by role, the function that returns the fingerprints.
        iteration: for the error message.

    Raises:
        DivergenceError: ranks differ; the message names the first tensor and the ranks.
    """
    if group.world_size == 1:
        return
    import numpy as np

    # Compared as text, so that NaN equals NaN: ranks that all blew up alike have not diverged.
    local = {
        f"{role}.{name}": repr(fingerprint)
        for role, fingerprints in watched.items()
        for name, fingerprint in fingerprints().items()
    }
    checksum = float(zlib.crc32(repr(local).encode()))
    least, negated = group.all_reduce(np.array([checksum, -checksum]), "min")
    if least == -negated:
        return
    ranks = group.gather_objects(local)
    for name in dict.fromkeys(name for values in ranks for name in values):
        odd = [rank for rank, values in enumerate(ranks) if values.get(name) != ranks[0].get(name)]
        if odd:
            values = "; ".join(f"rank {rank}: {ranks[rank].get(name)}" for rank in [0, *odd[:3]])
            raise DivergenceError(
                f"Ranks have diverged at iteration {iteration}: {name} differs from rank 0's on "
                f"rank(s) {', '.join(map(str, odd))} ({values}). Every parameter must be "
                "registered with session.wrap_model and stepped by session.gradient_sync, with the "
                "same learning rate on every rank."
            )
    raise DivergenceError(
        f"Ranks have diverged at iteration {iteration}: they watch the same tensors in a "
        "different order. Call session.wrap_model and session.watch in the same order on all ranks."
    )
