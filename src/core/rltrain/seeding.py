"""Seed streams: one base seed, three streams, and each rank's seed in every stream."""

from __future__ import annotations

import random
from dataclasses import dataclass

from rltrain.types import Stream

__all__ = ["SeedPlan", "draw_seed"]

STREAMS: tuple[Stream, ...] = ("model", "environment", "learner")


@dataclass(frozen=True)
class SeedPlan:
    """The seeds of one rank.

    Streams are children of one `numpy.random.SeedSequence`, so they are independent of each other
    and of other ranks' streams. `environment` and `learner` depend on the global rank. `model` is
    the same on all ranks, so that models start equal.
    """

    base: int
    """The base seed, equal on all ranks."""
    rank: int
    """Global rank."""
    resumed_at: int = 0
    """Iterations done before the checkpoint. A resumed run must not repeat the random numbers of
    its start, unless its generators' states are restored."""

    def seed(self, stream: Stream) -> int:
        """Return the seed of a stream on this rank, 0 to 2**31 - 1."""
        import numpy as np

        if stream not in STREAMS:
            raise ValueError(f"There is no stream {stream!r}. Choose from {', '.join(STREAMS)}.")
        rank = 0 if stream == "model" else self.rank
        key: tuple[int, ...] = (STREAMS.index(stream), rank)
        if self.resumed_at:
            key += (self.resumed_at,)
        sequence = np.random.SeedSequence(self.base, spawn_key=key)
        return int(sequence.generate_state(1)[0]) % 2**31

    @property
    def model(self) -> int:
        """Seed of model initialization: the same on all ranks."""
        return self.seed("model")

    @property
    def environment(self) -> int:
        """Seed of this rank's environments."""
        return self.seed("environment")

    @property
    def learner(self) -> int:
        """Seed of this rank's learner: exploration and mini-batches."""
        return self.seed("learner")


def draw_seed() -> int:
    """Draw a base seed, 0 to 2**31 - 1, from the operating system."""
    return random.SystemRandom().randrange(2**31)
