"""What a rank knows of its place."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["World"]


@dataclass(frozen=True)
class World:
    """A rank's place in the run."""

    rank: int = 0
    """Global rank: 0 to world_size - 1. Seeds and rank-0 I/O use this one."""
    local_rank: int = 0
    """Rank on this node."""
    node_rank: int = 0
    world_size: int = 1
    """Number of ranks of the run, on all nodes."""
    local_world_size: int = 1
    """Number of ranks on this node."""
    num_nodes: int = 1
    device: str = "cpu"
    """The device of this rank, such as "cpu" or "cuda:1"."""

    @property
    def is_root(self) -> bool:
        """Whether this is global rank 0, the only one that writes."""
        return self.rank == 0

    @property
    def place(self) -> int:
        """Number among the ranks of this node; differs even where all are local rank 0."""
        return self.rank % self.local_world_size
