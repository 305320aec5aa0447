"""rsl_rl's logger, which passes its metrics to the session."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.utils.logger import Logger

from rltrain.errors import StopTraining
from rltrain.records import Scalars

if TYPE_CHECKING:
    from rltrain_rsl_rl.run.runner import SessionRunner

_RECORDED_BY_CORE = ("Train/", "Perf/total_fps")
"""Prefixes of metrics that are dropped, since the core records them for all ranks."""

_PHASES = {"Perf/collection_time": "time/rollout", "Perf/learning_time": "time/update"}
"""By rsl_rl's name of a time, the session's name."""


class SessionLogger(Logger):
    """Passes the metrics of each iteration to the runner's session; writes and prints nothing."""

    def __init__(self, runner: SessionRunner, **arguments: Any) -> None:
        """Create the logger; the arguments are those of rsl_rl's."""
        super().__init__(**arguments)
        self.runner = runner

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
        """Record the iteration with index `it`, from 0; training ends at `total_it`. Collective."""
        with contextlib.redirect_stdout(io.StringIO()):
            super().log(it=it, total_it=total_it, **metrics)
        values: dict[str, float | tuple[float, float]] = {**self.writer.pop()}
        if intrinsic := getattr(self.runner.alg, "intrinsic", None):
            values |= intrinsic.metrics()
        session = self.runner.session
        session.record(Scalars(iteration=it + 1, iterations=total_it, values=values))
        if session.should_stop:
            raise StopTraining
        if session.should_save:
            self.runner.save(f"model_{it}.pt")


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
