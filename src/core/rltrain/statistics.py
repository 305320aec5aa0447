"""Figures merged over ranks: scalars, episodes, and the check that ranks have not diverged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rltrain.errors import DivergenceError
from rltrain.types import ProcessGroup

__all__ = [
    "EpisodeCounter",
    "EpisodeWindow",
    "Watched",
    "check_divergence",
    "gather_in_step",
    "merge_scalars",
]


def merge_scalars(ranks: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Merge the ranks' scalars, name by name.

    A name ending in "(min)", "(max)" or "(sum)" takes the least, the greatest or the sum; any other
    the mean. A name that some ranks do not have is merged over those that do.

    Example:
        >>> merge_scalars([{"loss": 1.0, "t (max)": 3.0}, {"loss": 2.0, "t (max)": 5.0}])
        {'loss': 1.5, 't (max)': 5.0}
    """
    names = dict.fromkeys(name for values in ranks for name in values)
    merged = {}
    for name in names:
        values = [float(rank[name]) for rank in ranks if name in rank]
        if name.endswith("(min)"):
            merged[name] = min(values)
        elif name.endswith("(max)"):
            merged[name] = max(values)
        elif name.endswith("(sum)"):
            merged[name] = sum(values)
        else:
            merged[name] = sum(values) / len(values)
    return merged


class EpisodeCounter:
    """Counts returns and lengths of one rank's episodes, on the arrays' own device.

    It uses nothing but operators that numpy, torch and jax arrays share, and copies nothing to the
    host until `take` is called, once an iteration.
    """

    def __init__(self) -> None:
        self.steps = 0
        """Environment steps, over this rank's environments."""
        self._return: Any = 0.0
        self._length: Any = 0.0
        self._sums: Any = (0.0, 0.0, 0.0)

    def step(self, rewards: Any, terminations: Any, truncations: Any) -> None:
        """Count one step of every environment; each argument has shape (num_envs,)."""
        done = (terminations | truncations) * 1.0
        self.steps += len(rewards)
        self._return = self._return + rewards
        self._length = self._length + 1.0
        returns, lengths, count = self._sums
        self._sums = (
            returns + (self._return * done).sum(),
            lengths + (self._length * done).sum(),
            count + done.sum(),
        )
        self._return = self._return * (1.0 - done)
        self._length = self._length * (1.0 - done)

    def restart(self) -> None:
        """Begin every environment's episode anew, as a reset does; unfinished ones do not count."""
        self._return = self._length = 0.0

    def take(self) -> tuple[float, float, float]:
        """Return (sum of returns, sum of lengths, count) of the episodes since the last call."""
        sums = tuple(float(value) for value in self._sums)
        self._sums = (0.0, 0.0, 0.0)
        return sums  # type: ignore[return-value]


class EpisodeWindow:
    """Mean return and length over the last finished episodes of all ranks."""

    def __init__(self, episodes: int = 100) -> None:
        """Keep as few past iterations as hold at least `episodes` episodes."""
        self._episodes = episodes
        self._kept: deque[tuple[float, float, float]] = deque()

    def add(self, ranks: Sequence[tuple[float, float, float]]) -> None:
        """Add what each rank's `EpisodeCounter.take` returned."""
        merged = tuple(sum(column) for column in zip(*ranks, strict=True))
        if merged[2]:
            self._kept.append(merged)  # type: ignore[arg-type]
        while sum(item[2] for item in list(self._kept)[1:]) >= self._episodes:
            self._kept.popleft()

    @property
    def count(self) -> int:
        """Episodes in the window."""
        return int(sum(item[2] for item in self._kept))

    @property
    def full(self) -> bool:
        """Whether the window holds as many episodes as it is meant to."""
        return self.count >= self._episodes

    @property
    def mean_return(self) -> float | None:
        """Mean return, or None before the first episode ended."""
        return sum(item[0] for item in self._kept) / self.count if self.count else None

    @property
    def mean_length(self) -> float | None:
        """Mean length in steps, or None before the first episode ended."""
        return sum(item[1] for item in self._kept) / self.count if self.count else None


def gather_in_step(group: ProcessGroup, doing: str, obj: Any) -> list[Any]:
    """Gather objects from ranks that must all be at the same point of the run. Collective.

    Args:
        group: the process group.
        doing: what this rank does, for the message: "records iteration 3".
        obj: what is gathered.

    Raises:
        DivergenceError: ranks are at different points, which two gathers alone would not show.
    """
    ranks = group.gather_objects((doing, obj))
    for rank, (other, _) in enumerate(ranks):
        if other != ranks[0][0]:
            raise DivergenceError(
                f"Ranks are out of step: rank 0 {ranks[0][0]}, rank {rank} {other}. Every rank "
                "must call session.record once in every iteration, and end after the same one."
            )
    return [gathered for _, gathered in ranks]


Watched = Callable[[], Mapping[str, Any]]
"""Returns fingerprints by tensor name: equal on two ranks where the tensors are equal."""


def check_divergence(group: ProcessGroup, watched: Mapping[str, Watched], iteration: int) -> None:
    """Compare over ranks what must be equal. Collective.

    Args:
        group: the process group.
        watched: by role, what gives fingerprints.
        iteration: for the message.

    Raises:
        DivergenceError: ranks differ; the message names the first tensor and the ranks.
    """
    if group.world_size == 1:
        return
    local = {
        f"{role}.{name}": fingerprint
        for role, fingerprints in watched.items()
        for name, fingerprint in fingerprints().items()
    }
    ranks = gather_in_step(group, f"compares its models after iteration {iteration}", local)
    for name in dict.fromkeys(name for values in ranks for name in values):
        # By text, so that a NaN equals a NaN: a run that blew up alike has not diverged.
        expected = repr(ranks[0].get(name))
        odd = [rank for rank, values in enumerate(ranks) if repr(values.get(name)) != expected]
        if odd:
            values = "; ".join(f"rank {rank}: {ranks[rank].get(name)}" for rank in [0, *odd[:3]])
            raise DivergenceError(
                f"Ranks have diverged at iteration {iteration}: {name} differs from rank 0's on "
                f"rank(s) {', '.join(map(str, odd))} ({values}). Every parameter must be "
                "registered with session.wrap_model and stepped by session.gradient_sync, with the "
                "same learning rate on every rank."
            )
