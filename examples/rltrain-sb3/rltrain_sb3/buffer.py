"""A rollout buffer whose advantages are normalized as one rank with all the data would do it."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from rltrain.types import ProcessGroup
from rltrain_torch.moments import pool_moments, standardize

__all__ = ["PooledBuffer"]


class PooledBuffer(RolloutBuffer):
    """Normalizes the advantages of each mini-batch by those of all ranks. Collective.

    Attributes:
        normalizes: whether it does; SB3's own normalization is then off.
    """

    def __init__(self, *arguments: Any, group: ProcessGroup, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._group = group
        self.normalizes = False

    def _get_samples(self, *arguments: Any, **options: Any) -> RolloutBufferSamples:
        samples = super()._get_samples(*arguments, **options)
        if not self.normalizes:
            return samples
        [moments] = pool_moments(self._group, [(samples.advantages, None)])
        if moments.count <= 1:  # As in SB3.
            return samples
        return samples._replace(advantages=standardize(samples.advantages, moments))
