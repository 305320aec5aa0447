"""The options of the launcher `ray`."""

from __future__ import annotations

from dataclasses import dataclass, field

from rltrain.options import naming


@dataclass(frozen=True)
class RayOptions:
    """Which cluster, and what the run asks of it."""

    address: str | None = field(default=None, metadata=naming("host"))
    """Address of the cluster, as for ray.init. By default RAY_ADDRESS, or the cluster that runs on
    this machine, or else a new one that ends with the run."""
    cpus_per_rank: int = 1
    """CPUs that Ray reserves for each rank."""

    def __post_init__(self) -> None:
        if self.cpus_per_rank < 0:
            raise ValueError(f"cpus_per_rank={self.cpus_per_rank} must not be negative.")
