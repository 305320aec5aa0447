"""rsl_rl's logger, which passes its metrics to the session."""

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

Metrics = Mapping[str, float | tuple[float, float]]
"""Scalars by name: a number, or the pair (sum, count) of several numbers."""

_RECORDED_BY_CORE = ("Train/", "Perf/total_fps")
"""Prefixes of metrics that are dropped, since the core records them for all ranks."""

_PHASES = {"Perf/collection_time": "time/rollout", "Perf/learning_time": "time/update"}
"""By rsl_rl's name of a time, the session's name."""


class SessionLogger(Logger):
    """Passes the metrics of each iteration to the session; writes and prints nothing."""

    def __init__(
        self,
        session: Session,
        extra_metrics: Callable[[], Metrics],
        save: Callable[[str], None],
        **arguments: Any,
    ) -> None:
        """Create the logger.

        Args:
            session: this rank's session.
            extra_metrics: returns metrics of the last iteration that rsl_rl does not log.
            save: saves a checkpoint under a name.
            **arguments: those of rsl_rl's logger.
        """
        super().__init__(**arguments)
        self.session = session
        self.extra_metrics = extra_metrics
        self.save = save

    def init_logging_writer(self) -> None:
        """Create the writer on every rank, and store no git diff."""
        self.writer = Collector()
        self.logger_type = None

    def process_env_step(
        self,
        rewards: torch.Tensor,
        dones: torch.Tensor,
        extras: dict[str, Any],
        intrinsic_rewards: torch.Tensor | None = None,
    ) -> None:
        """Collect what the environment logs; the core counts returns and episode lengths."""
        if "log" in extras:
            self.ep_extras.append(last := extras["log"])
            first = self.ep_extras[0]  # rsl_rl 5.0 records only the names that this one has.
            first |= {name: last.pop(name) for name in [*last] if name not in first}

    def log(self, *, it: int, total_it: int, **metrics: Any) -> None:
        """Record an iteration. Collective.

        Args:
            it: index of the iteration, from 0.
            total_it: index at which training ends.
            **metrics: those that rsl_rl passes.
        """
        with contextlib.redirect_stdout(io.StringIO()):
            super().log(it=it, total_it=total_it, **metrics)
        values = {**self.writer.pop(), **self.extra_metrics()}
        self.session.record(Scalars(iteration=it + 1, iterations=total_it, values=values))
        if self.session.should_stop:
            raise StopTraining
        if self.session.should_save:
            self.save(f"model_{it}.pt")


class Collector:
    """A log writer that collects scalars.

    It does not derive from a writer of rsl_rl, which from 5.4 on would get models and videos too.
    """

    def __init__(self) -> None:
        self._values: dict[str, float] = {}

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int) -> None:
        """Add a scalar, unless the core records it."""
        if not tag.startswith(_RECORDED_BY_CORE):
            self._values[_PHASES.get(tag, tag)] = float(scalar_value)

    def pop(self) -> dict[str, float]:
        """Return the scalars since the last call, by rsl_rl's names, and clear them."""
        values, self._values = self._values, {}
        return values
