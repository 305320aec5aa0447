"""Episode statistics: per rank as episodes end, and over the last episodes of all ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rltrain.types import Arrays

EPISODE_SUMS = 5
"""Number of sums over episodes: returns, lengths, number of episodes, successes, and number of
episodes for which the task reports success or failure."""

WINDOW = 100
"""Episodes over which means are taken."""

_NOT_STATE = ("_arrays", "_zeros")


class EpisodeCounter:
    """Counts returns, lengths and successes of one rank's episodes, on the arrays' own device.

    It uses only operators that numpy, torch and jax arrays share, compiled where a framework does
    that, and copies nothing to the host until the sums are read, once an iteration.
    """

    def __init__(self, arrays: Arrays | None = None) -> None:
        """Start counting; `arrays` are of the environments' framework, None for numpy."""
        self.steps = 0
        """Environment steps, over this rank's environments."""
        self._arrays = arrays
        self._zeros: Any = 0.0
        """The initial value of a count of each environment."""
        self._return: Any = 0.0
        self._length: Any = 0.0
        self._sums: Any = (0.0,) * EPISODE_SUMS
        """By environment: added up over them only when they are taken."""

    def step(self, rewards: Any, terminations: Any, truncations: Any, success: Any = None) -> None:
        """Count one step of every environment; each argument has shape (num_envs,).

        Of the ended episodes, `success` are successes; None if the task does not say.
        """
        self.steps += len(rewards)
        rewards, terminations, truncations, success = map(
            self._viewed, (rewards, terminations, truncations, success)
        )
        count: Callable[..., Any] = _count
        if self._arrays is not None and self._arrays.owns(rewards):
            if isinstance(self._zeros, float):
                self._begin_on_device(self._arrays.zeros_like(rewards))
            count = self._arrays.compile(_count)
        self._return, self._length, self._sums = count(
            (self._return, self._length, self._sums), rewards, terminations, truncations, success
        )

    def restart(self) -> None:
        """Start a new episode in every environment, as a reset does; drop unfinished ones."""
        self._return = self._length = self._zeros

    def take(self) -> tuple[Any, ...]:
        """Return the sums (see `EPISODE_SUMS`) over the episodes that ended since the last call.

        They are where the rewards are: reading them waits for the device.
        """
        sums, self._sums = self._sums, (self._zeros,) * EPISODE_SUMS
        add_up: Callable[..., tuple[Any, ...]] = _add_up
        if self._arrays is not None and self._arrays.owns(sums[0]):
            add_up = self._arrays.compile(_add_up)
        return add_up(sums)

    def get_state(self) -> dict[str, Any]:
        """Return the counter's state."""
        return {name: value for name, value in vars(self).items() if name not in _NOT_STATE}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of another counter, which may have been on another device."""
        kept = {name: value for name, value in state.items() if name not in _NOT_STATE}
        vars(self).update({name: self._viewed(value) for name, value in kept.items()})

    def _viewed(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._viewed, value))
        return value if self._arrays is None else self._arrays.view_on_host(value)

    def _begin_on_device(self, zeros: Any) -> None:
        """Keep zeros on the rewards' device: zeros on the host would be copied there each time."""
        self._zeros = zeros
        if isinstance(self._return, float):
            self._return = self._length = zeros
        if isinstance(self._sums[0], float):
            self._sums = (zeros,) * EPISODE_SUMS


def _count(
    state: tuple[Any, Any, Any], rewards: Any, terminations: Any, truncations: Any, success: Any
) -> tuple[Any, Any, Any]:
    """Return the next state of an `EpisodeCounter`: running returns, running lengths, sums."""
    done = (terminations | truncations) * 1.0
    running, length = state[0] + rewards, state[1] + 1.0
    returned, lasted = running * done, length * done
    returns, lengths, count, successes, judged = state[2]
    if success is not None:
        successes = successes + success * done
        judged = judged + done
    sums = (returns + returned, lengths + lasted, count + done, successes, judged)
    return running - returned, length - lasted, sums


def _add_up(sums: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return sums over the environments."""
    return tuple(x if isinstance(x, float) else x.sum() for x in sums)


class EpisodeWindow:
    """Means over the last finished episodes of all ranks."""

    def __init__(self, kept: Iterable[tuple[float, ...]] = (), episodes: int = WINDOW) -> None:
        """Create a window of the fewest past iterations with so many episodes, or restore one."""
        self._episodes = episodes
        self._kept = deque(kept)

    def add(self, sums: tuple[float, ...]) -> None:
        """Add an iteration: what `EpisodeCounter.take` returned, summed over ranks."""
        if sums[2]:
            self._kept.append(sums)
        while sum(item[2] for item in list(self._kept)[1:]) >= self._episodes:
            self._kept.popleft()

    @property
    def kept(self) -> list[tuple[float, ...]]:
        """The window's state, from which a later window can continue."""
        return list(self._kept)

    def reaches(self, target: float | None) -> bool:
        """Return whether the mean return of a full window is at least a target."""
        mean, is_full = self.mean_return, self._total(2) >= self._episodes
        return target is not None and mean is not None and is_full and mean >= target

    @property
    def mean_return(self) -> float | None:
        """Mean return, or None before the first episode ended."""
        return self._mean(0, 2)

    @property
    def mean_length(self) -> float | None:
        """Mean length in steps, or None before the first episode ended."""
        return self._mean(1, 2)

    @property
    def success_rate(self) -> float | None:
        """Fraction of episodes that were a success, 0 to 1; None if the task does not say."""
        return self._mean(3, 4)

    def _mean(self, total: int, count: int) -> float | None:
        return self._total(total) / self._total(count) if self._total(count) else None

    def _total(self, column: int) -> float:
        return sum(item[column] for item in self._kept)
