"""The session that plugins use, on one rank."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.data import pack_state
from rltrain.errors import fitting
from rltrain.files.dotted import get_dotted
from rltrain.launch import begin_meeting
from rltrain.metrics.divergence import Trained, check_divergence
from rltrain.metrics.numbers import Numbers
from rltrain.metrics.progress import Progress
from rltrain.metrics.scalars import check_number
from rltrain.ranks.pulse import PulseWriter
from rltrain.ranks.signals import Requests
from rltrain.records import CheckpointSaved, Record, Scalars
from rltrain.run.group import NotedGroup, SingleProcess
from rltrain.run.output import Output, on_disk
from rltrain.run.seeding import CoreSeeding
from rltrain.seeding import SeedPlan
from rltrain.storage.checkpoints import save_with_state
from rltrain.storage.resume import Resumption, agent_for_state, circumstances, iterations_left
from rltrain.storage.run_folder import RunFolder
from rltrain.types import (
    Arrays,
    Fingerprints,
    GradientSync,
    Iteration,
    ProcessGroup,
    Stream,
    TrainResult,
    World,
)

if TYPE_CHECKING:
    from rltrain.config import RunConfig
    from rltrain.metrics.environment import CountedEnv
    from rltrain.plugins.manager import RunPlugins


class PluginSession:
    """Implements `rltrain.session.Session`, which describes what plugins may use.

    Attributes are set as the run progresses. Besides, there are the rank's `pulse`, and `requests`,
    what it is asked for at the end of an iteration.
    """

    group: ProcessGroup
    seeds: SeedPlan
    run_folder: RunFolder
    env: CountedEnv

    def __init__(
        self,
        config: RunConfig,
        world: World,
        plugins: RunPlugins,
        iteration: Iteration | None = None,
        arrays: Mapping[str, Arrays] | None = None,
        restored: Collection[str] = (),
    ) -> None:
        self._arrays = arrays or {}
        self._restored = restored
        self.config = config
        self.world = world
        self._iteration = iteration
        self.should_stop = self.should_save = False
        self.requests = Requests(config.checkpoint_interval, world.is_root)
        self.pulse = PulseWriter()
        self._plugins = plugins
        self._plugins.register(CoreSeeding(), "core")
        self._watched: dict[str, Fingerprints] = {}
        self._progress = Progress()
        self._numbers = Numbers(config.on_nonfinite, self._arrays.get(config.framework))
        self._trained = Trained(config.library)
        self._added: dict[str, tuple[Any, int]] = {}
        self._resumption = Resumption()
        self._solved = False
        self._limit = ""
        self._checkpoint: str | None = None
        self._output = Output(plugins)
        self._on_iteration: Callable[[], None] = lambda: None

    @property
    def framework(self) -> str:
        return self.config.framework

    @property
    def checkpoint(self) -> Path | None:
        return Path(self.config.checkpoint) if self.config.checkpoint else None

    @property
    def iteration(self) -> int:
        return self._progress.iteration

    @property
    def batch_rows(self) -> int:
        size, num_envs = self._iteration, self.config.num_envs
        if size is None or size.replay_rows:
            return num_envs
        return size.steps * num_envs // (size.mini_batches or 1)

    @property
    def renders(self) -> bool:
        return self.config.renders and self.world.is_root

    @property
    def rank_state(self) -> Any:
        return self._resumption.rank.get("library")

    @property
    def resuming_exactly(self) -> bool:
        return self._resumption.exact

    @property
    def given_anew(self) -> Collection[str]:
        return self._resumption.anew

    @property
    def arrays(self) -> Arrays | None:
        """What handles arrays of the run's framework; None if that is numpy."""
        return self._arrays.get(self.framework)

    def from_host(self, array: Any) -> Any:
        return array if self.arrays is None else self.arrays.from_host(array, self.world.device)

    def to_host(self, x: Any) -> Any:
        import numpy as np

        arrays = self.arrays
        return arrays.to_host(x)[0] if arrays is not None and arrays.owns(x) else np.asarray(x)

    def seed(self, stream: Stream) -> None:
        self._plugins.hook.rltrain_seed(stream=stream, seed=self.seeds.seed(stream))
        if stream == "learner" and self.resuming_exactly:
            states = self._resumption.rank["plugins"]
            with fitting(self.checkpoint):
                self._plugins.call_with_state("rltrain_load_state", states, session=self)

    def iterations_left(self, total: int, done: int) -> int:
        return iterations_left(total, done)

    def wrap_model(self, model: Any, role: str) -> Any:
        wrapped = self._first_result(
            "rltrain_wrap_model", "backend", session=self, model=model, role=role
        )
        self._numbers.add_model(wrapped, role)
        self._trained.add_model(wrapped)
        return wrapped

    def gradient_sync(
        self, parameters: Any, *, extras: int = 0, may_overflow: bool = False
    ) -> GradientSync:
        sync: GradientSync = self._first_result(
            "rltrain_gradient_sync", "grad_sync", session=self, parameters=parameters, extras=extras
        )
        self._trained.add_sync(parameters, extras)
        return sync if may_overflow else self._numbers.checked(sync, parameters, extras)

    def watch(self, role: str, fingerprints: Fingerprints) -> None:
        self._watched[role] = fingerprints

    def add_metric(self, name: str, value: Any) -> None:
        check_number(name, value)
        total, count = self._added.get(name, (0.0, 0))
        self._added[name] = total + value, count + 1

    def record(self, record: Record) -> Record:
        if isinstance(record, Scalars):
            first = self._trained.check(self.group.world_size, bool(self._watched))
            if self._added:
                record = dataclasses.replace(record, values={**record.values, **self._added})
                self._added = {}
            record = self._progress.advance(record, self.requests.votes(record.iteration))
            self.pulse.done(record.iteration)
            record = self._react_to_numbers(record)
            stop, self.should_save = self.requests.count(self._progress.votes)
            self.should_stop |= stop and record.iteration != record.iterations
            self._check_target()
            if (every := self.config.check_interval) and (first or record.iteration % every == 0):
                check_divergence(self.group, self._watched, record.iteration)
            self._on_iteration()
        if self.world.is_root:
            self._output.write(record)
        return record

    def save_checkpoint(
        self, name: str, save: Callable[[Path], Any], iteration: int, rank_state: Any = None
    ) -> None:
        rank = {
            "plugins": self._plugins.collect("rltrain_save_state", session=self),
            "env": self.env.save_state(),
            "library": rank_state,
        }
        own = pack_state(rank, self._arrays), self.env.save_curricula()
        of_ranks = self.group.gather_objects(own, dst=0)
        if not self.world.is_root:
            return
        state = {
            "circumstances": circumstances(self.config, self.world),
            "agent": agent_for_state(self.config),
            "progress": self._progress.get_state(),
            "iteration": iteration,
            "episode_return": self._progress.window.mean_return,
            "ranks": [packed for packed, _ in of_ranks],
            "curricula": [curricula for _, curricula in of_ranks],
        }
        with on_disk(f"the checkpoint {name}"), self.pulse.during("saving a checkpoint"):
            path = save_with_state(self.run_folder, name, save, state, self.config.keep)
        self.requests.saved()
        self._checkpoint = str(path)
        self.record(CheckpointSaved(self._checkpoint, iteration))

    def result(self, limit: str = "") -> TrainResult:
        if self._solved:
            self._limit = f"--target-return {self.config.target_return:g}"
        elif limit and not self._asked_code:
            self._limit = f"agent.{limit}={get_dotted(self.config.agent, limit, None)}"
        return self._progress.result(
            str(self.run_folder.path),
            self._checkpoint,
            self._solved,
            self._limit,
            self._exit_code,
        )

    @property
    def _asked_code(self) -> int:
        """The exit status of a run that is asked to end; not that of one in its last iteration."""
        return self.requests.exit_code if self.should_stop and not self._solved else 0

    @property
    def _exit_code(self) -> int:
        return self._asked_code or self._output.exit_code

    def _make_group(self, config: RunConfig, world: World) -> ProcessGroup:
        if not config.distributed:
            return SingleProcess(world.device)
        group = self._first_result(
            "rltrain_init_distributed", "backend", world=world, config=config
        )
        begin_meeting()  # A framework or a scheduler may have arranged it.
        return NotedGroup(group, self.pulse)

    def _react_to_numbers(self, record: Scalars) -> Scalars:
        warning, counts = self._numbers.react(
            self.group, self._progress.nonfinite, record.iteration
        )
        for line in filter(None, [warning, *self._progress.slow]):
            if self.world.is_root:
                self._output.warn(line)
        return dataclasses.replace(record, values={**record.values, **counts})

    def _check_target(self) -> None:
        if self._progress.window.reaches(self.config.target_return):
            self._solved = self.should_stop = True

    def _first_result(self, hook: str, kind: str, **arguments: Any) -> Any:
        return self._plugins.first(hook, f"{kind} {getattr(self.config, kind)!r}", **arguments)
