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
    """Compare over ranks what must be equal. Collective.

    Two numbers cross: the least and the greatest checksum of all fingerprints. Only where they
    differ do the ranks tell each other more.

    Args:
        group: the process group.
        watched: by role, what gives fingerprints.
        iteration: for the message.

    Raises:
        DivergenceError: ranks differ; the message names the first tensor and the ranks.
    """
    if group.world_size == 1:
        return
    import numpy as np

    # By text, so that a NaN equals a NaN: a run that blew up alike has not diverged.
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
        f"Ranks have diverged at iteration {iteration}: they watch the same tensors in another "
        "order. Every rank must call session.wrap_model and session.watch in the same order."
    )
