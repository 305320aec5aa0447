"""One rank's run, from start to shutdown: the session that plugins use."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import NonFiniteError, PluginError, RltrainError
from rltrain.launch import console_stream, make_report
from rltrain.launch.pulse import PulseWriter
from rltrain.metrics.divergence import check_divergence
from rltrain.metrics.numbers import Numbers
from rltrain.metrics.progress import Progress
from rltrain.options.secrets import hide
from rltrain.records import CheckpointSaved, Record, RunStarted, Scalars
from rltrain.run.agreement import agree
from rltrain.run.group import SingleProcess
from rltrain.run.noted import NotedGroup
from rltrain.run.requests import Requests
from rltrain.run.seeding import CoreSeeding
from rltrain.run.unwritten import IO_ERROR, Unwritten, records_of
from rltrain.seeding import SeedPlan
from rltrain.storage import manifest
from rltrain.storage import pickling as host_state
from rltrain.storage.checkpoints import save_with_state
from rltrain.storage.resume import (
    Resumption,
    circumstances,
    iterations_left,
    nothing_to_resume,
    resumption,
)
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

__all__ = ["RankSession"]


class RankSession:
    """Implements `rltrain.session.Session`. Attributes are set as the run progresses.

    Attributes:
        world: this rank's place and device.
        config: the resolved run; `config.agent` has the library's options, `config.env` the
            task's.
        group: the process group; without `--distributed` it has one rank.
        seeds: this rank's seeds.
        run_folder: where rank 0 writes.
        env: this rank's environments, a `gymnasium.vector.VectorEnv` that counts episodes.
        should_stop: whether to end training after this iteration. Equal on all ranks.
        requests: what this rank is asked for at the end of an iteration.
        pulse: what this rank does now, for those who watch it.
        should_save: whether to save a checkpoint after this iteration. Equal on all ranks.
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
    ) -> None:
        self._arrays = arrays or {}
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
        self._resumption = Resumption()
        self._solved = False
        self._checkpoint: str | None = None
        self._unwritten = Unwritten()

    @property
    def framework(self) -> str:
        """The tensor framework of this run: "torch" or "jax"."""
        return self.config.framework

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint to start from. Every rank loads it, to its own device."""
        return Path(self.config.checkpoint) if self.config.checkpoint else None

    @property
    def iteration(self) -> int:
        """Iterations done, those before `checkpoint` included."""
        return self._progress.iteration

    @property
    def renders(self) -> bool:
        """Whether this rank's environments are drawn: their `render()` is to return frames."""
        return self.config.renders and self.world.is_root

    @property
    def rank_state(self) -> Any:
        """The `rank_state` saved with `checkpoint`; None if it does not fit this run."""
        return self._resumption.rank.get("library")

    @property
    def resuming_exactly(self) -> bool:
        """Whether the run continues bit for bit where the checkpoint was written.

        Then the environments are in the state that was saved, the first `env.reset()` returns their
        observations, and `seed("learner")` restores the random generators.
        """
        return self._resumption.exact

    def run(
        self,
        on_run_folder: Callable[[RunFolder], None] = lambda folder: None,
        on_iteration: Callable[[], None] = lambda: None,
    ) -> TrainResult:
        """Train from start to shutdown.

        Args:
            on_run_folder: called when this rank knows the run folder.
            on_iteration: called after each iteration.
        """
        self._on_iteration = on_iteration
        error: BaseException | None = None
        try:
            self._init_distributed()
            self._agree()
            on_run_folder(self.run_folder)
            self.seed("environment")
            self.env = self._make_env()
            self.seed("model")
            self._start()
            self.pulse.phase("learning")
            result: TrainResult = self._first_result("rltrain_train", "library", session=self)
            if not isinstance(result, TrainResult):
                raise PluginError(
                    f"rltrain_train of the library {self.config.library!r} returned {result!r}: "
                    "return session.result()."
                )
            self.pulse.phase("ending")
            self._progress.finish()
            check_divergence(self.group, self._watched, self._progress.iteration)
        except BaseException as raised:
            error = self._because_of_numbers(raised) or raised
            if error is not raised:
                raise error from raised
            raise
        finally:
            self._shutdown(error)
            self.pulse.phase("ended")
        # Writers may have had something left to write.
        return dataclasses.replace(result, exit_code=self._exit_code)

    @property
    def _asked_code(self) -> int:
        """The exit status of a run that is asked to end; not that of one in its last iteration."""
        return self.requests.exit_code if self.should_stop and not self._solved else 0

    @property
    def _exit_code(self) -> int:
        return self._asked_code or (IO_ERROR if self._unwritten else 0)

    # The interface for plugins

    def seed(self, stream: Stream) -> None:
        """Let every plugin seed its generators for a stream (hook `rltrain_seed`).

        `learner` is the last stream to begin. When a run continues exactly, all generators are then
        restored (hook `rltrain_load_state`).
        """
        self._plugins.hook.rltrain_seed(stream=stream, seed=self.seeds.seed(stream))
        if stream == "learner" and self.resuming_exactly:
            states = self._resumption.rank["plugins"]
            self._plugins.call_with_state("rltrain_load_state", states, session=self)

    def iterations_left(self, total: int, done: int) -> int:
        """Return how many iterations are left of `total`, after `done` before a checkpoint.

        Raises:
            UsageError: none are left.
        """
        return iterations_left(total, done)

    def wrap_model(self, model: Any, role: str) -> Any:
        """Give a model rank 0's state and return it (hook `rltrain_wrap_model`). Collective."""
        wrapped = self._first_result(
            "rltrain_wrap_model", "backend", session=self, model=model, role=role
        )
        self._numbers.add_model(wrapped, role)
        return wrapped

    def gradient_sync(self, parameters: Any, *, may_overflow: bool = False) -> GradientSync:
        """Make the gradient sync of one optimizer (hook `rltrain_gradient_sync`). Collective.

        Args:
            parameters: the optimizer's.
            may_overflow: whether infinite gradients are no fault: a scaler for mixed precision
                leaves out such updates.
        """
        sync: GradientSync = self._first_result(
            "rltrain_gradient_sync", "grad_sync", session=self, parameters=parameters
        )
        return sync if may_overflow else self._numbers.checked(sync, parameters)

    def watch(self, role: str, fingerprints: Fingerprints) -> None:
        """Register tensors with the divergence check."""
        self._watched[role] = fingerprints

    def record(self, record: Record) -> Record:
        """Send one event to the writers. Every rank calls it; collective for `Scalars`.

        Returns:
            The record as the writers saw it: for `Scalars`, merged over ranks.

        Raises:
            DivergenceError: ranks are at different iterations; or, every `config.check_interval`
                iterations, their watched tensors differ.
            NonFiniteError: a rank has NaN or infinity (--on-nonfinite).
        """
        if isinstance(record, Scalars):
            record = self._progress.advance(record, self.requests.votes(record.iteration))
            self.pulse.done(record.iteration)
            record = self._react_to_numbers(record)
            stop, self.should_save = self.requests.count(self._progress.votes)
            self.should_stop |= stop and record.iteration != record.iterations
            self._check_target()
            every = self.config.check_interval
            if every and record.iteration % every == 0:
                check_divergence(self.group, self._watched, record.iteration)
            self._on_iteration()
        if self.world.is_root:
            self._write(record)
        return record

    def save_checkpoint(
        self, name: str, save: Callable[[Path], Any], iteration: int, rank_state: Any = None
    ) -> None:
        """Save a checkpoint on rank 0; it is complete or absent. Collective.

        If the disk does not take it, training goes on, and `should_save` soon asks for another.

        Call it on every rank, after the iteration's `record`. The checkpoint also holds what each
        rank needs to continue bit for bit: its generators, its environments if the task can save
        their state, and its `rank_state`.

        Args:
            name: file name in the run folder's `checkpoints`.
            save: writes the library's own format to the path that it is given; called on rank 0.
            iteration: iterations done, for the record.
            rank_state: this rank's own state, picklable and on the host: recurrent states, a replay
                buffer. A resumed run gets it back as `session.rank_state`.
        """
        rank = {
            "plugins": self._plugins.collect("rltrain_save_state", session=self),
            "env": self.env.save_state(),
            "library": rank_state,
        }
        ranks = self.group.gather_objects(host_state.dumps(rank, self._arrays), dst=0)
        if not self.world.is_root:
            return
        state = {
            "circumstances": circumstances(self.config, self.world),
            "progress": self._progress.get_state(),
            "iteration": iteration,
            "episode_return": self._progress.window.mean_return,
            "ranks": ranks,
        }
        self._describe()
        path = None
        with (
            self._unwritten.attempt("checkpoints", self.run_folder.path),
            self.pulse.during("saving a checkpoint"),
        ):
            path = save_with_state(self.run_folder, name, save, state, self.config.keep)
        if path is None:
            self.requests.not_saved()
            return
        self.requests.saved()
        self._checkpoint = str(path)
        self.record(CheckpointSaved(self._checkpoint, iteration))

    def result(self) -> TrainResult:
        """Return the outcome of the run so far."""
        return self._progress.result(
            str(self.run_folder.path), self._checkpoint, self._solved, self._exit_code
        )

    def describe_collectives(self) -> str:
        """Return what the backend remembers of this rank's last collectives, or ""."""
        return self._plugins.hook.rltrain_describe_collectives(session=self) or ""

    # The steps of a run

    def _init_distributed(self) -> None:
        if not self.config.distributed:
            self.group = SingleProcess(self.world.device)
            return
        group = self._first_result(
            "rltrain_init_distributed", "backend", world=self.world, config=self.config
        )
        self.group = NotedGroup(group, self.pulse)

    def _agree(self) -> None:
        """Check that all ranks run the same, apply rank 0's decisions, and read the checkpoint."""
        manifest.check_agreement(self.group, self.config)
        agreement = agree(self.group, self.config)
        self.config, self.run_folder = agreement.config, agreement.run_folder
        if self.checkpoint is not None:
            self._resumption = resumption(self.checkpoint, self.config, self.world, self._arrays)
            if self._resumption.progress is not None:
                self._progress.set_state(self._resumption.progress)
        elif self.config.auto_resume:
            self._resumption = nothing_to_resume(self.config)
        self.seeds = SeedPlan(self.config.seed, self.world.rank, self._resumption.iteration)

    def _make_env(self) -> CountedEnv:
        from rltrain.metrics.environment import CountedEnv, check_env

        env = self._first_result("rltrain_make_env", "suite", session=self)
        check_env(env, self.config.num_envs, self.config.suite)
        random_lengths = bool(self.config.random_lengths)
        arrays = self._arrays.get(self.framework)
        counted = CountedEnv(
            env,
            self.seeds.environment,
            random_lengths,
            arrays,
            self.pulse.during,
            self._numbers.env,
        )
        if self.resuming_exactly:
            counted.load_state(self._resumption.rank["env"])
        return counted

    def _start(self) -> None:
        config = self.config
        if self.world.is_root:
            self._manifest = manifest.manifest(config, self.world, self.seeds)
            self._describe()
        self.record(
            RunStarted(
                run_dir=str(self.run_folder.path),
                library=config.library,
                algorithm=config.algorithm,
                task=config.task,
                world=self.world,
                num_envs=config.num_envs,
                seed=config.seed,
                config=hide(dataclasses.asdict(config)),
                iteration=self._iteration,
                resumed=self._resumption.summary,
                frames=self._progress.frames,
            )
        )
        self._progress.start(
            self.group,
            self.env,
            self._numbers,
            self._arrays.get(self.framework),
            lambda: (self.pulse.stepping, self.pulse.waiting),
        )
        self.requests.start()

    def _describe(self) -> None:
        """Write what the run is, unless that is there: the folder may have been removed."""
        folder = self.run_folder
        with self._unwritten.attempt("manifest.json and config.yaml", folder.path):
            if not folder.manifest.exists():
                manifest.write_config(folder, self.config)
                folder.write_manifest(self._manifest)

    def _write(self, record: Record) -> None:
        """Give a record to the writers. One that cannot write does not end the run."""
        for name, error in self._plugins.call_each("rltrain_write", record=record).items():
            if error is None:
                self._unwritten.remove(records_of(name))
            elif not self._unwritten.is_of_writer(name, error):
                raise error

    def _react_to_numbers(self, record: Scalars) -> Scalars:
        warning, counts = self._numbers.react(
            self.group, self._progress.nonfinite, record.iteration
        )
        for line in filter(None, [warning, *self._progress.slow]):
            self._say(line)
        return dataclasses.replace(record, values={**record.values, **counts})

    def _because_of_numbers(self, error: BaseException) -> NonFiniteError | None:
        """Return the true error if a library has stumbled over NaN before its iteration ended."""
        of_library = isinstance(error, Exception) and not isinstance(error, RltrainError)
        if not of_library or make_report(self.world.rank, error).kind == "peer_lost":
            return None
        with contextlib.suppress(Exception):  # The device may have failed.
            return self._numbers.explain(self.world.rank, self._progress.iteration + 1)
        return None

    def _say(self, text: str) -> None:
        """Show a line to the user and in the run's log, once."""
        if self.world.is_root:
            for stream in {
                id(stream): stream for stream in (console_stream(), sys.stdout)
            }.values():
                print(f"rltrain: {text}", file=stream, flush=True)

    def _check_target(self) -> None:
        target, window = self.config.target_return, self._progress.window
        reached = window.mean_return
        if target is not None and reached is not None and window.full and reached >= target:
            self._solved = self.should_stop = True

    def _shutdown(self, error: BaseException | None) -> None:
        """Shut every plugin down, even after errors; then leave the group."""
        errors: list[BaseException] = []
        if self.world.is_root and hasattr(self, "run_folder"):
            try:
                asked = error is None and self._asked_code != 0
                self.record(self._progress.ended(error, self._solved, asked))
            except Exception as raised:
                errors.append(raised)
        ended = self._plugins.call_each("rltrain_shutdown", session=self, error=error)
        for name, other in ended.items():
            of_writer = name.startswith("writer")
            if other and not (of_writer and self._unwritten.is_of_writer(name, other)):
                errors.append(other)
        self._unwritten.tell_at_end()
        if error is not None:
            for other in errors:
                error.add_note(f"While shutting down: {type(other).__name__}: {other}")
            if self.config.distributed:
                return  # Peers may be gone: closing the environment or the group could block.
        try:
            if hasattr(self, "env"):
                self.env.close()
        finally:
            if hasattr(self, "group"):
                self.group.close()
        if errors and error is None:
            raise errors[0]

    def _first_result(self, hook: str, kind: str, **arguments: Any) -> Any:
        return self._plugins.first(hook, f"{kind} {getattr(self.config, kind)!r}", **arguments)
