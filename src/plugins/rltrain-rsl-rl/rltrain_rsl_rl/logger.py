"""rsl_rl's figures, handed to the session."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.utils.logger import Logger

from rltrain.errors import StopTraining
from rltrain.records import Scalars

if TYPE_CHECKING:
    from rltrain.session import Session

__all__ = ["Figures", "SessionLogger"]

Figures = Mapping[str, float | tuple[float, float]]
"""Scalars by name: a number, or the pair (sum, count) of several."""

COUNTED_BY_THE_CORE = ("Train/", "Perf/total_fps")
"""Scalars that are dropped: the core has them from all ranks."""

PHASES = {"Perf/collection_time": "time/rollout", "Perf/learning_time": "time/update"}
"""rsl_rl's names of the phases' times, and the session's."""


class SessionLogger(Logger):
    """Hands the figures of each iteration to the session; writes and prints nothing."""

    def __init__(self, session: Session, more: Callable[[], Figures], **arguments: Any) -> None:
        """Make the logger.

        Args:
            session: this rank's side of the run.
            more: returns scalars of an iteration that rsl_rl does not log.
            **arguments: rsl_rl's.
        """
        super().__init__(**arguments)
        self.session = session
        self.more = more

    def init_logging_writer(self) -> None:
        """Make the writer, on every rank; store no git diff."""
        self.writer = Collector()
        self.logger_type = None

    def process_env_step(
        self,
        rewards: torch.Tensor,
        dones: torch.Tensor,
        extras: dict[str, Any],
        intrinsic_rewards: torch.Tensor | None = None,
    ) -> None:
        """Keep what the environment logs; returns and lengths are counted elsewhere."""
        if "log" in extras:
            self.ep_extras.append(extras["log"])

    def log(self, *, it: int, total_it: int, **figures: Any) -> None:
        """Record the iteration. Collective.

        Args:
            it: index of the iteration, from 0.
            total_it: index at which training ends.
            **figures: rsl_rl's.

        Raises:
            StopTraining: the session wants training to end.
        """
        with contextlib.redirect_stdout(io.StringIO()):
            super().log(it=it, total_it=total_it, **figures)
        values = {**self.writer.take(), **self.more()}
        self.session.record(Scalars(iteration=it + 1, iterations=total_it, values=values))
        if self.session.should_stop:
            raise StopTraining


class Collector:
    """A log writer that keeps scalars until they are taken.

    It is none of rsl_rl's, which from 5.4 on it would hand models and videos, too.
    """

    def __init__(self) -> None:
        self._values: dict[str, float] = {}

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int) -> None:
        """Keep one scalar, unless the core has it anyway."""
        if not tag.startswith(COUNTED_BY_THE_CORE):
            self._values[PHASES.get(tag, tag)] = float(scalar_value)

    def take(self) -> dict[str, float]:
        """Return the scalars since the last call, by rsl_rl's names."""
        values, self._values = self._values, {}
        return values
