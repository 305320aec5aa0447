"""Connects an agent of skrl to the session: metrics, checkpoints and gradients.

How the gradients of all ranks become one step:

    synchronize_gradients   once, when the agent is built: for each collective of its `together`
    └ average_together      makes a gradient sync of the session for the models of one collective
      ├ torch: models[-1].average_gradients      skrl calls `reduce_parameters` of each model after
      │                                          `backward`; the last model averages for all
      └ jax: AveragedOptimizer.step              skrl steps each optimizer; the last one of those
                                                 that `step_together` averages and steps all
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from rltrain.errors import StopTraining, explain_mismatch
from rltrain.records import Scalars
from rltrain.session import Session
from rltrain_adapters import as_given
from rltrain_skrl.declare.iteration import steps_per_iteration, total_iterations
from rltrain_skrl.declare.options import RESTORED
from rltrain_skrl.run.checkpoints import PROGRESS, check_parts, rename_parts

ENVIRONMENT_INFO = "episode"
"""skrl's own default of `trainer.environment_info`."""


class SessionAgent(ABC):
    """Mixin for every agent of skrl; it goes before skrl's class among the bases.

    It records each iteration and saves checkpoints through the session; it writes nothing itself.
    An iteration is `steps_per_iteration` steps. A resumed run counts the steps before its
    checkpoint too, and so do the timesteps that skrl's agent gets.
    """

    together: ClassVar[tuple[tuple[str, ...], ...]]
    """The models whose gradients share a collective, in the order in which skrl uses them."""
    memory_class: type[Any]
    """Replaces skrl's `RandomMemory`; it takes `pool` too."""
    scaler_class: ClassVar[type[Any]]
    """Of the preprocessors whose statistics are pooled."""
    suffix: ClassVar[str]
    """Of skrl's checkpoints."""

    # skrl's, read by this class.
    memory: Any
    checkpoint_modules: dict[str, Any]
    tracking_data: dict[str, list[Any]]
    action_space: spaces.Space[Any]
    cfg: Any

    def __init__(self, *, session: Session, **components: Any) -> None:
        """Build skrl's agent of its own arguments, whose models are wrapped already."""
        super().__init__(**components)
        self._session = session
        self._steps = steps_per_iteration(session.config.agent["agent"])
        self._total = total_iterations(session.config)
        self._resumed_at = 0
        self._update_seconds = 0.0
        self._lap = time.perf_counter()
        self._progress = self.checkpoint_modules[PROGRESS] = self.make_progress()
        for group in ("observation", "state"):
            scaler = getattr(self, f"_{group}_preprocessor")
            if isinstance(scaler, self.scaler_class):
                self.memory.scalers |= {f"{group}s": scaler, f"next_{group}s": scaler}
        self.synchronize_gradients()
        self.watch_optimizers()

    def synchronize_gradients(self) -> None:
        """Call `average_together` for the models of each collective."""
        for roles in self.together:
            self.average_together(*roles)

    # What depends on the framework

    @abstractmethod
    def average_together(self, *roles: str) -> None:
        """Average the gradients of the models with these names in one collective."""

    @abstractmethod
    def watch_optimizers(self) -> None:
        """Register learning rates and moments with the divergence check."""

    @abstractmethod
    def make_progress(self) -> Any:
        """Return what else goes into a checkpoint; it has an integer `iteration`."""

    @abstractmethod
    def learning_rates(self) -> Mapping[str, float]:
        """Return the learning rates by purpose, such as "policy"."""

    @abstractmethod
    def with_final_observations(self, transition: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a transition with the final observations of episodes that a time limit ended."""

    @abstractmethod
    def read(self, path: Path, trusted: bool) -> Mapping[str, Any]:
        """Return a checkpoint's parts by name; only if it is trusted may it run code."""

    @abstractmethod
    def load_parts(self, parts: Mapping[str, Any]) -> None:
        """Load parts as skrl loads a checkpoint."""

    @abstractmethod
    def write(self, path: Path) -> None:
        """Save as skrl does."""

    def numbers(self, values: Any) -> Any:
        """Return tracked metrics, lists by name, as numbers on the host."""
        return values

    @property
    def environment_info(self) -> str:
        """The key of `info` for metrics of the environments."""
        options: Mapping[str, Any] = self._session.config.agent["trainer"]
        return str(options.get("environment_info", ENVIRONMENT_INFO))

    @property
    def timesteps_done(self) -> int:
        """Steps of every environment, those before a checkpoint included."""
        return int(self._progress.iteration) * self._steps

    # What skrl's trainer calls

    def init(self, *, trainer_cfg: Any = None) -> None:
        """Prepare for training; skrl writes no files of its own."""
        # With an interval of zero skrl makes neither a writer nor a folder, and tracks no episodes:
        # the session counts those for every library.
        self.write_interval = self.checkpoint_interval = 0
        super().init(trainer_cfg=trainer_cfg)  # type: ignore[misc]
        every = self.cfg.experiment.checkpoint_interval
        self._save_every = self._total * self._steps // 10 if every == "auto" else int(every)

    def pre_interaction(self, *, timestep: int, timesteps: int) -> None:
        """Start a step; see skrl."""
        super().pre_interaction(**self._counted(timestep, timesteps))  # type: ignore[misc]

    def act(self, observations: Any, states: Any, *, timestep: int, timesteps: int) -> Any:
        """Choose actions; see skrl."""
        counted = self._counted(timestep, timesteps)
        return super().act(observations, states, **counted)  # type: ignore[misc]

    def record_transition(self, *, timestep: int, timesteps: int, **transition: Any) -> None:
        """Store one step of every environment; see skrl."""
        counted = self._counted(timestep, timesteps)
        super().record_transition(  # type: ignore[misc]
            **self.with_final_observations(transition), **counted
        )

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn; see skrl. The timesteps are those of the whole run."""
        started = time.perf_counter()
        super().update(timestep=timestep, timesteps=timesteps)  # type: ignore[misc]
        self._update_seconds += time.perf_counter() - started

    def post_interaction(self, *, timestep: int, timesteps: int) -> None:
        """Update if it is due, and end the iteration."""
        counted = self._counted(timestep, timesteps)
        super().post_interaction(**counted)  # type: ignore[misc]
        if (counted["timestep"] + 1) % self._steps:
            return
        self._progress.iteration += 1
        iteration = self._progress.iteration
        every, done = self._save_every, self.timesteps_done
        over = self._session.end_iteration(
            Scalars(iteration, self._collect_metrics(), iterations=self._total),
            f"agent_{done}.{self.suffix}",
            self.write,
            due=every > 0 and done // every > (done - self._steps) // every,
            rank_state=self.rank_state,
        )
        self._lap = time.perf_counter()
        if over:
            raise StopTraining

    def _counted(self, timestep: int, timesteps: int) -> dict[str, int]:
        """Return the trainer's counts as those of the whole run; a new trainer starts at zero."""
        before = self._resumed_at
        return {"timestep": before + timestep, "timesteps": before + timesteps}

    def _collect_metrics(self) -> dict[str, float]:
        """Return what skrl tracked in this iteration, and clear it on every rank.

        skrl clears it only when it writes, which ranks other than 0 never do.
        """
        merge = {"(min)": np.min, "(max)": np.max}
        metrics = {
            name: float(merge.get(name[-5:], np.mean)(values))
            for name, values in self.numbers(self.tracking_data).items()
            if not name.startswith(("Reward / ", "Episode / "))  # The session counts these.
        }
        self.tracking_data.clear()
        for name, rate in self.learning_rates().items():
            metrics[f"Learning / {f'{name} learning rate'.strip().capitalize()}"] = rate
        if not isinstance(self.action_space, spaces.Box):
            metrics.pop("Policy / Standard deviation", None)  # NaN: choices have none.
        seconds = time.perf_counter() - self._lap
        metrics["time/rollout"] = seconds - self._update_seconds
        metrics["time/update"] = self._update_seconds
        self._update_seconds = 0.0
        return metrics

    # Checkpoints

    def rank_state(self) -> Any:
        """Return what this rank needs to resume exactly, picklable and on the host."""
        return None

    def load_rank_state(self, state: Any) -> None:  # noqa: B027 - it is optional.
        """Restore what `rank_state` returned on this rank, if it was not None."""

    def resume(self, path: Path) -> None:
        """Load a checkpoint of skrl. Every rank does."""
        config, own = self._session.config, self.checkpoint_modules.keys()
        saved = self.read(path, config.trust)
        with explain_mismatch(path):
            parts, lacking = rename_parts(saved, own)
            check_parts(parts.keys(), own - lacking, config.agent["agent"]["class"])
            with as_given(self._session, self, RESTORED):
                self.load_parts(parts)
            self._resumed_at = self.timesteps_done
            if self._session.rank_state is not None:
                self.load_rank_state(self._session.rank_state)

    def timesteps_left(self) -> int:
        """Return how many steps of every environment are left for the trainer."""
        return self._session.iterations_left(self._total, self._progress.iteration) * self._steps
