"""Going on from a checkpoint: exactly where nothing has changed, sensibly where something has."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError
from rltrain.options.dotted import flatten
from rltrain.storage import pickling as host_state
from rltrain.storage.checkpoints import read_state
from rltrain.types import World

if TYPE_CHECKING:
    from rltrain.config import RunConfig

__all__ = ["Resumption", "circumstances", "iterations_left", "resumption"]


@dataclass(frozen=True)
class Resumption:
    """What one rank goes on from."""

    progress: Mapping[str, Any] | None = None
    """For `Progress.set_state`; None if nothing is known."""
    rank: Mapping[str, Any] = field(default_factory=dict)
    """This rank's own state; empty if it does not fit this run."""
    said: str = ""
    """For the user: what the run goes on from, and what has changed."""

    @property
    def exact(self) -> bool:
        """Whether the run goes on as if it had never stopped."""
        return bool(self.rank) and self.rank["env"] is not None

    @property
    def iteration(self) -> int:
        """Iterations done before; 0 if that is not known."""
        return int(self.progress["iteration"]) if self.progress else 0


def circumstances(config: RunConfig, world: World) -> dict[str, Any]:
    """Return what must not change if a run is to go on exactly, by its name for the user."""
    return {
        "algorithm": config.algorithm,
        "ranks": world.world_size,
        # Their generators draw other numbers, and neither can take the other's state.
        "device": world.device.partition(":")[0],
        "environments a rank": config.num_envs,
        "task": config.task,
        "suite": config.suite,
        "seed": config.seed,
        "framework": config.framework,
        **{f"env.{name}": value for name, value in flatten(dict(config.env))},
    }


def iterations_left(total: int, done: int) -> int:
    """Return how many iterations are left of `total` after those before a checkpoint.

    Raises:
        UsageError: none is.
    """
    if done >= total:
        raise UsageError(
            f"--max-iterations {total}: the checkpoint was written after iteration {done}, so "
            "that nothing is left to do. Iterations before the checkpoint count: give more."
        )
    return total - done


def resumption(checkpoint: Path, config: RunConfig, world: World) -> Resumption:
    """Read what belongs to a checkpoint.

    Args:
        checkpoint: the library's file.
        config: the run that goes on, its seed drawn.
        world: this rank's place.

    Raises:
        UsageError: this rank cannot see the file.
    """
    if not checkpoint.is_file():
        raise UsageError(
            f"--checkpoint {checkpoint}: rank {world.rank} on {socket.gethostname()} cannot see "
            "this file. Every rank loads it: put it on a disk that all nodes share, or copy it, "
            "with the folder `ranks` beside it."
        )
    state = read_state(checkpoint)
    if state is None:
        return Resumption(
            said=f"Starting from {checkpoint}, with nothing beside it of the ranks that wrote it: "
            "counters, environments and random numbers begin anew."
        )
    before, now = state["circumstances"], circumstances(config, world)
    if before.get("algorithm") != now["algorithm"]:
        # Such as a teacher for its student: nothing is resumed.
        return Resumption(
            said=f"Starting {now['algorithm']} from {checkpoint}, which is of a run of "
            f"{before.get('algorithm')}: counters, environments and random numbers begin anew."
        )
    changed = [
        f"{name} {before.get(name)} -> {now.get(name)}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    said = f"Resuming {checkpoint} after iteration {state['iteration']}"
    if changed:
        return Resumption(
            state["progress"],
            said=f"{said}. Changed: {', '.join(changed)}. Environments and random numbers begin "
            "anew; model, optimiser, normalisers and counters go on.",
        )
    rank = host_state.loads(state["ranks"][world.rank], world.device)
    if rank["env"] is None:
        said += ". The task cannot give its state: environments and random numbers begin anew"
    return Resumption(state["progress"], rank, f"{said}.")
