"""Positions of several ranks' environments on one rank that has all of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rows:
    """Positions of the environments of `ranks` ranks on one rank that has all of them.

    The environments are ordered in blocks; a block has a part of the first rank's, then of the
    second's, and so on. One block is rank after rank. Several are for libraries that cut
    mini-batches from neighboring environments: mini-batch k of the one rank is then the union of
    the ranks' k-th.
    """

    ranks: int
    envs: int
    """Environments a rank."""
    blocks: int = 1

    def __post_init__(self) -> None:
        if self.envs % self.blocks:
            raise ValueError(f"{self.envs} environments do not fall into {self.blocks} blocks.")

    @property
    def total(self) -> int:
        """Number of environments of all ranks."""
        return self.ranks * self.envs

    def of(self, rank: int) -> torch.Tensor:
        """Return the places of a rank's environments, in the rank's own order, shape (envs,)."""
        size = self.envs // self.blocks
        env = torch.arange(self.envs)
        return (env // size) * size * self.ranks + rank * size + env % size

    def parts(self, total: int) -> list[torch.Tensor]:
        """Return, by rank, the places of its rows in a batch of all ranks' rows.

        Args:
            total: rows of the batch. As many as there are environments: they are those. Else it is
                a mini-batch, in which the ranks' rows follow each other.
        """
        if total == self.total:
            return [self.of(rank) for rank in range(self.ranks)]
        if total % self.ranks:
            raise ValueError(f"{total} rows cannot be split among {self.ranks} ranks.")
        return list(torch.arange(total).chunk(self.ranks))

    def in_batch(self, rank: int, index: torch.Tensor) -> torch.Tensor:
        """Return the positions of a rank's rows in the one rank's batch.

        Args:
            rank: the rank.
            index: rows of the rank's own flat batch: step * envs + environment.
        """
        return index // self.envs * self.total + self.of(rank)[index % self.envs]


def merged(parts: list[torch.Tensor], places: list[torch.Tensor]) -> torch.Tensor:
    """Return the ranks' rows as one batch, each at its place."""
    return torch.cat(parts)[torch.cat(places).argsort()]
