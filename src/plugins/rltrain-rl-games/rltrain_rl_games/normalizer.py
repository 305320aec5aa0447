"""rl_games' running moments, pooled over ranks: one collective an update."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd

from rltrain.types import ProcessGroup
from rltrain_torch.moments import Moments, pool_moments

__all__ = [
    "Expected",
    "GroupsMeanStd",
    "PooledMeanStd",
    "expect",
    "expected_observations",
    "pool_normalisers",
]


class PooledMeanStd(RunningMeanStd):
    """rl_games' normaliser, updated with the moments of all ranks' data before it is used.

    Its state is equal on all ranks, and what one rank with all the data would have. It is kept
    under the same names, so that checkpoints stay rl_games' own.

    What it will be given in training has to be announced (`expect`), so that the moments of a whole
    update cross the ranks together.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor
    count: torch.Tensor
    training: bool

    def __init__(self, normaliser: Any) -> None:
        """Take the place of a normaliser that rl_games has made, with its state."""
        super().__init__(normaliser.insize, normaliser.epsilon, norm_only=normaliser.norm_only)
        self.load_state_dict(normaliser.state_dict())
        self.to(normaliser.running_mean.device)
        self._expected: deque[tuple[torch.Tensor, Moments]] = deque()

    def announce(self, batches: Sequence[tuple[torch.Tensor, Moments]]) -> None:
        """Say what comes in training, in order, with its moments over all ranks.

        What was announced before and has not come is forgotten.
        """
        self._expected = deque(batches)

    def forward(
        self, input: torch.Tensor, denorm: bool = False, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Normalise data of shape (B, ...); in training, update first.

        Raises:
            RuntimeError: in training, the data is not what was announced.
        """
        updates = self.training
        if updates:
            self._update(input)
        self.training = False  # The base class would update with this rank's data alone.
        try:
            normalised: torch.Tensor = super().forward(input, denorm, mask)
        finally:
            self.training = updates
        return normalised

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @torch.no_grad()
    def _update(self, data: torch.Tensor) -> None:
        """Merge the announced moments into the running ones."""
        if not self._expected or not _is_same(data, self._expected[0][0]):
            raise RuntimeError(
                f"rl_games normalises a batch of shape {tuple(data.shape)} that was not announced: "
                "its moments over all ranks are not known."
            )
        _, moments = self._expected.popleft()
        self.running_mean, self.running_var, self.count = self._update_mean_var_count_from_moments(
            self.running_mean,
            self.running_var,
            self.count,
            moments.mean,
            moments.variance,
            moments.count,
        )


class GroupsMeanStd(torch.nn.Module):
    """Normalises the vectors among several groups of observations; images pass.

    rl_games' own would take moments of every pixel, but cannot be made: torch does not compile it.

    Args:
        shapes: of one environment's groups, by name.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.running_mean_std = torch.nn.ModuleDict(
            {name: RunningMeanStd(shape) for name, shape in shapes.items() if len(shape) == 1}
        )

    def forward(self, input: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the groups, of shape (B, ...); in training, update first."""
        vectors = self.running_mean_std
        return {name: vectors[name](x) if name in vectors else x for name, x in input.items()}


@dataclass(frozen=True)
class Expected:
    """What one normaliser will be given in an update."""

    normaliser: PooledMeanStd
    batches: Sequence[torch.Tensor]
    """In order, each of shape (B, ...). Images of dtype uint8 are given as rl_games will convert
    them: to float32, 0 to 1."""
    rounds: int = 1
    """How often they come one after another."""


def expect(
    group: ProcessGroup, expected: Sequence[Expected], others: Sequence[torch.Tensor] = ()
) -> list[Moments]:
    """Pool the moments of everything that an update normalises, in one collective.

    Args:
        group: the process group.
        expected: what the normalisers will be given.
        others: more batches of shape (B, ...), for whoever normalises them.

    Returns:
        The moments of the other batches over all ranks.
    """
    batches = [(batch, batch.new_zeros(batch.shape[1:]).double()) for batch in others]
    for one in expected:
        mean = one.normaliser.running_mean
        batches += [(batch, mean / _unit(batch)) for batch in one.batches]
    pooled = iter(pool_moments(group, batches))
    own = [next(pooled) for _ in others]
    for one in expected:
        moments = [_converted(batch, next(pooled)) for batch in one.batches]
        one.normaliser.announce(list(zip(one.batches, moments, strict=True)) * one.rounds)
    return own


def pool_normalisers(model: Any) -> None:
    """Replace the normalisers of one of rl_games' models by pooled ones."""
    for name in ("running_mean_std", "value_mean_std"):
        normaliser = getattr(model, name, None)
        if isinstance(normaliser, GroupsMeanStd):
            vectors = normaliser.running_mean_std
            for group, part in vectors.items():
                vectors[group] = PooledMeanStd(part)
        elif normaliser is not None:
            setattr(model, name, PooledMeanStd(normaliser))


def expected_observations(
    normaliser: Any, observations: Any, rows: int, rounds: int
) -> list[Expected]:
    """Return what a pooled normaliser of observations will be given, in mini-batches.

    Args:
        normaliser: of one array, or of groups.
        observations: of shape (B, ...), or such by group.
        rows: of a mini-batch.
        rounds: how often all of them come.
    """
    if not isinstance(normaliser, GroupsMeanStd):
        return [Expected(normaliser, observations.split(rows), rounds)]
    parts: Iterable[tuple[str, Any]] = normaliser.running_mean_std.items()
    return [Expected(part, observations[group].split(rows), rounds) for group, part in parts]


def _unit(batch: torch.Tensor) -> float:
    """Return what rl_games makes of a 1 in this batch."""
    return 1 / 255 if batch.dtype == torch.uint8 else 1.0


def _converted(batch: torch.Tensor, moments: Moments) -> Moments:
    unit = _unit(batch)
    return Moments(moments.count, moments.mean * unit, moments.variance * unit**2)


def _is_same(data: torch.Tensor, announced: torch.Tensor) -> bool:
    """Whether data is what was announced, or its copy in another dtype."""
    if data.shape != announced.shape:
        return False
    return data.dtype != announced.dtype or data.data_ptr() == announced.data_ptr()
