"""The progress of a run, over all ranks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rltrain.metrics.episodes import EPISODE_SUMS, EpisodeWindow
from rltrain.metrics.scalars import ScalarExchange
from rltrain.records import RunEnded, Scalars
from rltrain.types import ProcessGroup, TrainResult

if TYPE_CHECKING:
    from rltrain.metrics.environment import CountedEnv

__all__ = ["VOTES", "Progress"]

VOTES = 3
"""The number of questions on which ranks vote."""


class Progress:
    """Counts iterations, frames and episodes of all ranks; equal on all of them.

    Attributes:
        iteration: iterations done, including those before a loaded checkpoint.
        frames: environment steps over all environments and ranks, likewise.
        window: the last finished episodes.
        votes: how many ranks asked for each thing in the last iteration; see `advance`.
    """

    def __init__(self) -> None:
        self.iteration = self.frames = 0
        self.window = EpisodeWindow()
        self._first_iteration: int | None = None
        self._started = self._lap = time.monotonic()
        self._counted = 0
        self.votes = [0.0] * VOTES

    def start(self, group: ProcessGroup, env: CountedEnv) -> None:
        """Start counting."""
        self._exchange, self._env = ScalarExchange(group), env
        self._started = self._lap = time.monotonic()
        self._counted = env.episodes.steps

    def advance(self, record: Scalars, votes: Sequence[bool]) -> Scalars:
        """Merge one iteration's metrics over ranks. Collective.

        Args:
            record: this rank's metrics.
            votes: what this rank asks of all ranks, `VOTES` questions.

        Raises:
            DivergenceError: the ranks are not at the same iteration.
        """
        now, counter = time.monotonic(), self._env.episodes
        steps = counter.steps - self._counted
        fps = steps / max(now - self._lap, 1e-9)
        self._lap, self._counted = now, counter.steps
        if self._first_iteration is None:
            self._first_iteration = record.iteration - 1
        sums = [*counter.take(), *map(float, votes), steps]
        merged = self._exchange.merge(record.iteration, record.values, sums, fps)
        self.iteration = record.iteration
        self.frames += int(merged.sums[-1])
        self.window.add(tuple(merged.sums[:EPISODE_SUMS]))
        self.votes = merged.sums[EPISODE_SUMS:-1]
        return dataclasses.replace(
            record,
            values=merged.values,
            frames=self.frames,
            seconds=now - self._started,
            fps=merged.fps,
            episode_return=self.window.mean_return,
            episode_length=self.window.mean_length,
            success_rate=self.window.success_rate,
        )

    def finish(self) -> None:
        """Make sure that every rank ends after the same iteration. Collective.

        Raises:
            DivergenceError: they do not.
        """
        self._exchange.finish(self.iteration, EPISODE_SUMS + VOTES + 1)

    def result(
        self, run_dir: str, checkpoint: str | None, solved: bool, exit_code: int
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
            exit_code=exit_code,
        )

    def ended(self, error: BaseException | None, solved: bool, asked: bool) -> RunEnded:
        """Return the record of the run's end."""
        return RunEnded(
            iterations=self.iteration,
            frames=self.frames,
            seconds=time.monotonic() - self._started,
            episode_return=self.window.mean_return,
            solved=solved,
            error=f"{type(error).__name__}: {error}" if error else None,
            asked=asked,
        )

    def get_state(self) -> dict[str, Any]:
        """Return the counts from which a resumed run continues."""
        return {"iteration": self.iteration, "frames": self.frames, "window": self.window.kept}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue counting from a saved state."""
        self.iteration, self.frames = state["iteration"], state["frames"]
        self.window = EpisodeWindow(state["window"])
