"""The progress of a run, over all ranks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rltrain.metrics.episodes import EPISODE_SUMS, EpisodeWindow
from rltrain.metrics.numbers import KINDS
from rltrain.metrics.scalars import ScalarExchange
from rltrain.ranks.verdict import Stragglers
from rltrain.records import RunEnded, Scalars
from rltrain.types import Arrays, ProcessGroup, TrainResult

if TYPE_CHECKING:
    from rltrain.metrics.environment import CountedEnv
    from rltrain.metrics.numbers import NonFiniteCheck

VOTES = 3
"""The number of questions on which ranks vote."""

_VOTES_END = EPISODE_SUMS + VOTES
_SUMS = _VOTES_END + len(KINDS) + 1


class Progress:
    """Counts iterations, frames and episodes of all ranks; equal on all of them."""

    def __init__(self) -> None:
        self.iteration = self.frames = 0
        """Those before a loaded checkpoint included; frames are of all environments and ranks."""
        self.window = EpisodeWindow()
        self.votes = [0.0] * VOTES
        """How many ranks asked for each thing in the last iteration; see `advance`."""
        self.nonfinite = [0.0] * len(KINDS)
        """How many numbers of each kind were not finite in the last iteration."""
        self.slow: list[str] = []
        """Describes the ranks that were slow in the last iteration."""
        self._first_iteration: int | None = None
        self._started = self._lap = time.monotonic()
        self._counted = 0
        self._stragglers = Stragglers()

    def start(
        self,
        group: ProcessGroup,
        env: CountedEnv,
        numbers: NonFiniteCheck,
        arrays: Arrays | None,
        seconds: Callable[[], tuple[float, float]],
    ) -> None:
        """Start counting; `seconds` returns those so far in environments and in collectives."""
        self._exchange, self._env, self._numbers = ScalarExchange(group), env, numbers
        self._arrays = arrays
        self._seconds, self._spent = seconds, seconds()
        self._started = self._lap = time.monotonic()
        self._counted = env.episodes.steps

    def advance(self, record: Scalars, votes: Sequence[bool]) -> Scalars:
        """Merge one iteration's metrics, and votes on `VOTES` questions, over ranks. Collective."""
        now, counter = time.monotonic(), self._env.episodes
        steps = counter.steps - self._counted
        fps = steps / max(now - self._lap, 1e-9)
        own = fps, *self._own_seconds(now - self._lap)
        self._lap, self._counted = now, counter.steps
        if self._first_iteration is None:
            self._first_iteration = record.iteration - 1
        counts = _read([*counter.take(), *self._numbers.count(record.values)], self._arrays)
        episodes, nonfinite = counts[:EPISODE_SUMS], counts[EPISODE_SUMS:]
        sums = [*episodes, *map(float, votes), *nonfinite, steps]
        merged = self._exchange.merge(record.iteration, record.values, sums, own)
        self.iteration = record.iteration
        self.frames += int(merged.sums[-1])
        self.window.add(tuple(merged.sums[:EPISODE_SUMS]))
        self.votes = merged.sums[EPISODE_SUMS:_VOTES_END]
        self.nonfinite = merged.sums[_VOTES_END:-1]
        fps_of, rollout, update, collectives = zip(*merged.own, strict=True)
        self.slow = self._stragglers.find(list(zip(rollout, update, strict=True)))
        return dataclasses.replace(
            record,
            values=merged.values,
            frames=self.frames,
            seconds=now - self._started,
            fps=fps_of,
            rollout=rollout,
            update=update,
            collectives=collectives,
            episode_return=self.window.mean_return,
            episode_length=self.window.mean_length,
            success_rate=self.window.success_rate,
        )

    def _own_seconds(self, whole: float) -> tuple[float, float, float]:
        """Return this rank's seconds in its environments, in all else, and in collectives."""
        before, self._spent = self._spent, self._seconds()
        rollout, collectives = (now - then for now, then in zip(self._spent, before, strict=True))
        return rollout, max(whole - rollout - collectives, 0.0), collectives

    def finish(self) -> None:
        """Make sure that every rank ends after the same iteration. Collective."""
        self._exchange.finish(self.iteration, _SUMS)

    def result(
        self, run_dir: str, checkpoint: str | None, solved: bool, limit: str, exit_code: int
    ) -> TrainResult:
        """Return the outcome of the run so far."""
        return TrainResult(
            iterations=self.iteration - (self._first_iteration or 0),
            frames=self.frames,
            episode_return=self.window.mean_return,
            episode_length=self.window.mean_length,
            run_dir=run_dir,
            checkpoint=checkpoint,
            solved=solved,
            seconds=time.monotonic() - self._started,
            limit=limit,
            exit_code=exit_code,
        )

    def ended(self, error: BaseException | None, solved: bool, asked: bool, limit: str) -> RunEnded:
        """Return the record of the run's end."""
        return RunEnded(
            iterations=self.iteration,
            frames=self.frames,
            seconds=time.monotonic() - self._started,
            episode_return=self.window.mean_return,
            solved=solved,
            error=f"{type(error).__name__}: {error}" if error else None,
            asked=asked,
            limit=limit,
        )

    def get_state(self) -> dict[str, Any]:
        """Return the counts from which a resumed run continues."""
        return {"iteration": self.iteration, "frames": self.frames, "window": self.window.kept}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue counting from a saved state."""
        self.iteration, self.frames = state["iteration"], state["frames"]
        self.window = EpisodeWindow(state["window"])


def _read(values: Sequence[Any], arrays: Arrays | None) -> list[float]:
    """Return numbers as floats; those on a device in one copy to the host."""
    there = [arrays is not None and arrays.owns(value) for value in values]
    on_device = tuple(value for value, owned in zip(values, there, strict=True) if owned)
    copied = iter(arrays.floats(on_device) if arrays is not None and on_device else ())
    return [next(copied) if o else float(v) for v, o in zip(values, there, strict=True)]
