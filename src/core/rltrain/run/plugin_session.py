"""The session that plugins use, on one rank: `rltrain.session.Session` describes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.data import pack_state
from rltrain.errors import explain_mismatch
from rltrain.files.dotted import get_dotted
from rltrain.nodes.meeting import begin_meeting
from rltrain.ranks.pulse import PulseWriter
from rltrain.records import CheckpointSaved, Record, Scalars
from rltrain.run.group import NotedGroup, SingleProcess
from rltrain.run.recording import Output, Recorder, on_disk
from rltrain.run.seeding import CoreSeeding
from rltrain.seeding import SeedPlan
from rltrain.storage.checkpoint import save_with_state
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
    from gymnasium.vector import VectorEnv

    from rltrain.config import RunConfig
    from rltrain.metrics.environment import CountedEnv
    from rltrain.plugins.manager import RunPlugins


class PluginSession:
    """What needs no training. Attributes are set as the run progresses.

    `pulse` is what the rank does now.
    """

    group: ProcessGroup
    seeds: SeedPlan
    run_folder: RunFolder
    env: VectorEnv[Any, Any, Any]

    def __init__(
        self,
        config: RunConfig,
        world: World,
        plugins: RunPlugins,
        arrays: Mapping[str, Arrays] | None = None,
    ) -> None:
        self.config, self.world = config, world
        self.pulse = PulseWriter()
        self._plugins, self._all_arrays = plugins, arrays or {}
        self._plugins.register(CoreSeeding(), "core")

    @property
    def framework(self) -> str:
        return self.config.framework

    @property
    def checkpoint(self) -> Path | None:
        return Path(self.config.checkpoint) if self.config.checkpoint else None

    @property
    def renders(self) -> bool:
        return self.config.renders and self.world.is_root

    @property
    def arrays(self) -> Arrays | None:
        """What handles arrays of the run's framework; None if that is numpy."""
        return self._all_arrays.get(self.framework)

    def from_host(self, array: Any) -> Any:
        return array if self.arrays is None else self.arrays.from_host(array, self.world.device)

    def to_host(self, x: Any) -> Any:
        import numpy as np

        arrays = self.arrays
        return arrays.to_host(x)[0] if arrays is not None and arrays.owns(x) else np.asarray(x)

    def seed(self, stream: Stream) -> None:
        self._plugins.hook.rltrain_seed(stream=stream, seed=self.seeds.seed(stream))

    def _make_group(self, config: RunConfig, world: World) -> ProcessGroup:
        if not config.distributed:
            return SingleProcess(world.device)
        group = self._first_result(
            "rltrain_init_distributed", "backend", world=world, config=config
        )
        begin_meeting()  # A framework or a scheduler may have arranged it.
        return NotedGroup(group, self.pulse)

    def _make_checked_env(self) -> VectorEnv[Any, Any, Any]:
        from rltrain.metrics.environment import check_env

        env = self._first_result("rltrain_make_env", "suite", session=self)
        check_env(env, self.config.num_envs, self.config.suite)
        return env  # type: ignore[no-any-return]

    def _first_result(self, hook: str, kind: str, **arguments: Any) -> Any:
        return self._plugins.first(hook, f"{kind} {getattr(self.config, kind)!r}", **arguments)


class TrainingSession(PluginSession):
    """What needs training: the checkpoint to start from, what is learned, recorded and saved."""

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
        super().__init__(config, world, plugins, arrays)
        self._iteration, self._restored = iteration, restored
        self.should_stop = self.should_save = False
        self.recorder = Recorder(config, world.is_root, self.arrays, self.pulse)
        self._output = Output(plugins)
        self._resumption = Resumption()
        self._limit = ""
        self._saved: str | None = None
        self._on_iteration: Callable[[], None] = lambda: None

    @property
    def iteration(self) -> int:
        return self.recorder.progress.iteration

    @property
    def batch_rows(self) -> int:
        size, num_envs = self._iteration, self.config.num_envs
        if size is None or size.replay_rows:
            return num_envs
        return size.steps * num_envs // (size.mini_batches or 1)

    @property
    def rank_state(self) -> Any:
        return self._resumption.rank.get("library")

    @property
    def resuming_exactly(self) -> bool:
        return self._resumption.exact

    @property
    def given_anew(self) -> Collection[str]:
        return self._resumption.anew

    def seed(self, stream: Stream) -> None:
        super().seed(stream)
        if stream == "learner" and self.resuming_exactly:
            states = self._resumption.rank["plugins"]
            with explain_mismatch(self.checkpoint):
                self._plugins.call_with_state("rltrain_load_state", states, session=self)

    def iterations_left(self, total: int, done: int) -> int:
        return iterations_left(total, done)

    def wrap_model(self, model: Any, role: str) -> Any:
        wrapped = self._first_result(
            "rltrain_wrap_model", "backend", session=self, model=model, role=role
        )
        self.recorder.numbers.add_model(wrapped, role)
        self.recorder.trained.add_model(wrapped)
        return wrapped

    def gradient_sync(
        self, parameters: Any, *, extras: int = 0, may_overflow: bool = False
    ) -> GradientSync:
        sync: GradientSync = self._first_result(
            "rltrain_gradient_sync", "grad_sync", session=self, parameters=parameters, extras=extras
        )
        self.recorder.trained.add_sync(parameters, extras)
        return sync if may_overflow else self.recorder.numbers.checked(sync, parameters, extras)

    def watch(self, role: str, fingerprints: Fingerprints) -> None:
        self.recorder.watched[role] = fingerprints

    def add_metric(self, name: str, value: Any) -> None:
        self.recorder.add_metric(name, value)

    def record(self, record: Record) -> Record:
        if isinstance(record, Scalars):
            record, warnings = self.recorder.merge(record, self.group)
            for line in warnings if self.world.is_root else ():
                self._output.warn(line)
            self.should_stop |= self.recorder.should_stop
            self.should_save = self.recorder.should_save
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
        own = pack_state(rank, self._all_arrays), self.env.save_curricula()
        of_ranks = self.group.gather_objects(own, dst=0)
        if not self.world.is_root:
            return
        progress = self.recorder.progress
        state = {
            "circumstances": circumstances(self.config, self.world),
            "agent": agent_for_state(self.config),
            "progress": progress.get_state(),
            "iteration": iteration,
            "episode_return": progress.window.mean_return,
            "ranks": [packed for packed, _ in of_ranks],
            "curricula": [curricula for _, curricula in of_ranks],
        }
        with on_disk(f"the checkpoint {name}"), self.pulse.during("saving a checkpoint"):
            path = save_with_state(self.run_folder, name, save, state, self.config.keep)
        self.recorder.requests.saved()
        self._saved = str(path)
        self.record(CheckpointSaved(self._saved, iteration))

    def end_iteration(
        self,
        scalars: Scalars,
        name: str,
        save: Callable[[Path], Any],
        *,
        due: bool = False,
        rank_state: Callable[[], Any] = lambda: None,
    ) -> bool:
        self.record(scalars)
        over = self.should_stop or scalars.iteration == scalars.iterations
        if over or due or self.should_save:
            self.save_checkpoint(name, save, scalars.iteration, rank_state())
        return over

    def result(self, limit: str = "") -> TrainResult:
        solved = self.recorder.solved
        if solved:
            self._limit = f"--target-return {self.config.target_return:g}"
        elif limit and not self._asked_code:
            self._limit = f"agent.{limit}={get_dotted(self.config.agent, limit, None)}"
        run_dir, code = str(self.run_folder.path), self._asked_code or self._output.exit_code
        return self.recorder.progress.result(run_dir, self._saved, solved, self._limit, code)

    @property
    def _asked_code(self) -> int:
        """The exit status of a run that is asked to end; not that of one in its last iteration."""
        asks = self.should_stop and not self.recorder.solved
        return self.recorder.requests.exit_code if asks else 0
