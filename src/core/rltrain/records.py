"""The records: the events that a run sends to its writers, on rank 0 only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltrain.types import Iteration, World

__all__ = ["CheckpointSaved", "Media", "Record", "RunEnded", "RunStarted", "Scalars", "Warned"]


@dataclass(frozen=True)
class RunStarted:
    """The run folder exists and training is about to begin."""

    run_dir: str
    library: str
    algorithm: str
    task: str
    world: World
    num_envs: int
    """Environments a rank."""
    seed: int
    """The base seed."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The resolved run, as in the manifest."""
    iteration: Iteration | None = None
    """The size of one iteration, if the library declares it."""
    resumed: str = ""
    """What the run resumes from and what has changed since, in sentences; "" for a new run."""
    frames: int = 0
    """Environment steps before a loaded checkpoint. In the run folder of ranks that have started
    again, later ones were recorded, too: they are done once more."""


@dataclass(frozen=True)
class Scalars:
    """The metrics of one iteration.

    An adapter sets `iteration`, `iterations` and this rank's `values`. `session.record` fills in
    the rest and sends the writers values merged over ranks.
    """

    iteration: int
    """Iterations done, from 1, including those before a loaded checkpoint."""
    values: Mapping[str, Any]
    """By name, such as "loss/policy": a number, or the pair (sum, count) of several numbers. Merged
    over ranks: the mean over the ranks that have the name, weighted by the counts; the minimum,
    maximum or sum for names that end in "(min)", "(max)" or "(sum)". A loss, whose name begins with
    "loss", must be finite (`--on-nonfinite`). For phase times,
    "time/rollout" and "time/update" in s, minimum and maximum are added to the mean."""
    iterations: int | None = None
    """The iteration at which the run ends, if known."""
    frames: int = 0
    """Environment steps so far, over all environments and ranks: the x axis of every plot."""
    seconds: float = 0.0
    """Seconds since training started."""
    fps: tuple[float, ...] = ()
    """Frames per second of each rank in this iteration."""
    episode_return: float | None = None
    """Mean over the last finished episodes of all ranks."""
    episode_length: float | None = None
    """Mean over the same episodes, in steps."""
    success_rate: float | None = None
    """Fraction of the same episodes that were a success, 0 to 1; None if the task does not say."""
    rollout: tuple[float, ...] = ()
    """Seconds of each rank in its environments in this iteration."""
    update: tuple[float, ...] = ()
    """Seconds of each rank in all else but collectives."""
    collectives: tuple[float, ...] = ()
    """Seconds of each rank in collectives of the process group, by the host's clock. Where these
    return before they are done (NCCL, jax), the rest of them is in `update`."""

    @property
    def communication(self) -> float:
        """Seconds in which ranks exchange data: the min over ranks of `collectives`.

        The last rank to arrive does not wait. If that is another rank in each collective, a part of
        the waiting counts as communication.
        """
        return min(self.collectives, default=0.0)

    @property
    def waiting(self) -> tuple[float, ...]:
        """Seconds of each rank in which it waits: its `collectives` - `communication`."""
        return tuple(seconds - self.communication for seconds in self.collectives)

    @property
    def waiting_share(self) -> float:
        """Sum of `waiting` / sum of `rollout`, `update` and `collectives`, 0 to 1; 0 of nothing."""
        whole = sum((*self.rollout, *self.update, *self.collectives))
        return sum(self.waiting) / whole if whole else 0.0


@dataclass(frozen=True)
class CheckpointSaved:
    """A checkpoint is complete on disk."""

    path: str
    iteration: int


@dataclass(frozen=True)
class Media:
    """An image, video or audio file that was written to the run folder."""

    path: str
    name: str
    iteration: int


@dataclass(frozen=True)
class Warned:
    """A warning was shown, such as that a rank is slow or a disk is full."""

    text: str
    """One line, which is on the console and in rank 0's log as well."""
    iteration: int
    """Iterations done."""


@dataclass(frozen=True)
class RunEnded:
    """The run is over."""

    iterations: int
    frames: int
    seconds: float
    episode_return: float | None
    solved: bool = False
    """Whether it ended because the target return was reached."""
    error: str | None = None
    """The error in one line, if there was one."""
    asked: bool = False
    """Whether it ended before it was done because a signal asked for it."""
    limit: str = ""
    """The option that ended it before its iterations were done; see `TrainResult`."""

    @property
    def outcome(self) -> str:
        """In a word: "finished", "solved", "stopped" (it was asked to), "interrupted", "failed"."""
        if self.error is not None:
            return "interrupted" if self.error.startswith("KeyboardInterrupt") else "failed"
        return "stopped" if self.asked else "solved" if self.solved else "finished"


Record = RunStarted | Scalars | CheckpointSaved | Media | Warned | RunEnded
"""One event sent to the writers. A writer passes over those that it does not know: a later version
may have more."""
