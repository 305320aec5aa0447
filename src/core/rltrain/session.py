"""One rank's run from start to shutdown: the typed face through which a plugin reaches it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain import manifest
from rltrain.errors import PluginError
from rltrain.group import SingleProcess
from rltrain.records import CheckpointSaved, Record, RunEnded, RunStarted, Scalars
from rltrain.run_folder import RunFolder, create_run_folder
from rltrain.seeding import CoreSeeding, SeedPlan, draw_seed
from rltrain.statistics import (
    EpisodeWindow,
    Watched,
    check_divergence,
    gather_in_step,
    merge_scalars,
)
from rltrain.types import GradientSync, ProcessGroup, Stream, TrainResult, World

if TYPE_CHECKING:
    from rltrain.config import RunConfig
    from rltrain.environment import CountedEnv
    from rltrain.run_plugins import RunPlugins

__all__ = ["DIVERGENCE_INTERVAL", "Session"]

DIVERGENCE_INTERVAL = 50
"""Iterations between two divergence checks; one more is made when training ends."""


class Session:
    """What a plugin may ask of the run. Attributes appear in the order of the run.

    Attributes:
        world: this rank's place and device.
        config: the resolved run; `config.agent` are the library's options, `config.env` the
            task's.
        group: the process group; of one rank without `--distributed`.
        seeds: this rank's seeds.
        run_folder: where rank 0 writes.
        env: this rank's environments, a `gymnasium.vector.VectorEnv` that counts episodes.
        should_stop: whether the adapter is to end training after this iteration. Equal on all
            ranks.
    """

    group: ProcessGroup
    seeds: SeedPlan
    run_folder: RunFolder
    env: CountedEnv

    def __init__(self, config: RunConfig, world: World, plugins: RunPlugins) -> None:
        self.config = config
        self.world = world
        self.should_stop = False
        self._plugins = plugins
        self._plugins.register(CoreSeeding(), "core")
        self._watched: dict[str, Watched] = {}
        self._window = EpisodeWindow()
        self._solved = False
        self._started = self._lap = time.monotonic()
        self._counted = self._frames = 0
        self._first = self._iteration = 0
        self._checkpoint: str | None = None

    @property
    def framework(self) -> str:
        """The tensor framework of this run: "torch" or "jax"."""
        return self.config.framework

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint to start from. Every rank loads it."""
        return Path(self.config.checkpoint) if self.config.checkpoint else None

    def run(self, on_run_folder: Callable[[RunFolder], None] = lambda folder: None) -> TrainResult:
        """Train from start to shutdown.

        Args:
            on_run_folder: called once the run folder's path is known to this rank.
        """
        error: BaseException | None = None
        try:
            self._init_distributed()
            self._agree()
            on_run_folder(self.run_folder)
            self.seed("environment")
            self.env = self._make_env()
            self.seed("model")
            self._start()
            result: TrainResult = self._first_result("rltrain_train", "library", session=self)
            if not isinstance(result, TrainResult):
                raise PluginError(
                    f"rltrain_train of the library {self.config.library!r} returned {result!r}: "
                    "return session.result()."
                )
            check_divergence(self.group, self._watched, self._iteration)
            return result
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._shutdown(error)

    # What an adapter asks for

    def seed(self, stream: Stream) -> None:
        """Let every plugin seed its generators for a stream (hook `rltrain_seed`)."""
        self._plugins.hook.rltrain_seed(stream=stream, seed=self.seeds.seed(stream))

    def wrap_model(self, model: Any, role: str) -> Any:
        """Give a model rank 0's state and return it (hook `rltrain_wrap_model`). Collective."""
        return self._first_result(
            "rltrain_wrap_model", "backend", session=self, model=model, role=role
        )

    def gradient_sync(self, parameters: Any) -> GradientSync:
        """Make the gradient sync of one optimiser (hook `rltrain_gradient_sync`). Collective."""
        sync: GradientSync = self._first_result(
            "rltrain_gradient_sync", "grad_sync", session=self, parameters=parameters
        )
        return sync

    def watch(self, role: str, fingerprints: Watched) -> None:
        """Register tensors with the divergence check."""
        self._watched[role] = fingerprints

    def record(self, record: Record) -> Record:
        """Tell the writers one thing. Every rank calls it; collective for `Scalars`.

        Returns:
            The record as the writers saw it: for `Scalars`, merged over ranks.

        Raises:
            DivergenceError: every `DIVERGENCE_INTERVAL` iterations, if ranks differ.
        """
        if isinstance(record, Scalars):
            record = self._merged(record)
            if record.iteration % DIVERGENCE_INTERVAL == 0:
                check_divergence(self.group, self._watched, record.iteration)
        if self.world.is_root:
            self._plugins.hook.rltrain_write(record=record)
        return record

    def save_checkpoint(self, name: str, save: Callable[[Path], Any], iteration: int) -> None:
        """Save a checkpoint, complete or absent, on rank 0; other ranks return at once.

        Args:
            name: file name in the run folder's `checkpoints`.
            save: writes it to the path that it is given, in the library's own format.
            iteration: for the record.
        """
        if not self.world.is_root:
            return
        path = self.run_folder.write_atomically(f"checkpoints/{name}", save)
        self._checkpoint = str(path)
        self.record(CheckpointSaved(self._checkpoint, iteration))

    def result(self) -> TrainResult:
        """Return what the run has come to."""
        return TrainResult(
            iterations=self._iteration - self._first,
            frames=self._frames,
            episode_return=self._window.mean_return,
            episode_length=self._window.mean_length,
            run_dir=str(self.run_folder.path),
            checkpoint=self._checkpoint,
            solved=self._solved,
            seconds=time.monotonic() - self._started,
        )

    # The steps of a run

    def _init_distributed(self) -> None:
        if not self.config.distributed:
            self.group = SingleProcess(self.world.device)
            return
        self.group = self._first_result(
            "rltrain_init_distributed", "backend", world=self.world, config=self.config
        )

    def _agree(self) -> None:
        """Take the seed and the run folder from rank 0; check that all ranks run the same."""
        manifest.check_agreement(self.group, self.config)
        decided: tuple[int, str] | Exception | None = None
        if self.world.is_root:
            decided = self._decide()
        # An error is shared too: the other ranks would wait for a folder that never comes.
        decided = self.group.broadcast_object(decided)
        if isinstance(decided, Exception):
            raise decided
        assert decided is not None
        seed, path = decided
        self.config = dataclasses.replace(self.config, seed=seed)
        self.seeds = SeedPlan(seed, self.world.rank)
        self.run_folder = RunFolder(Path(path))

    def _decide(self) -> tuple[int, str] | Exception:
        config = self.config
        try:
            folder = create_run_folder(
                config.log_root, config.library, config.task, config.run_name
            )
        except Exception as error:
            return error
        return draw_seed() if config.seed == -1 else config.seed, str(folder.path)

    def _make_env(self) -> CountedEnv:
        from rltrain.environment import CountedEnv, check_env

        env = self._first_result("rltrain_make_env", "suite", session=self)
        check_env(env, self.config.num_envs or 0, self.config.suite or "")
        return CountedEnv(env, self.seeds.environment)

    def _start(self) -> None:
        config = self.config
        if self.world.is_root:
            contents = manifest.manifest(config, self.world, self.seeds)
            self.run_folder.write_manifest(contents)
            manifest.write_config(self.run_folder, config)
        self.record(
            RunStarted(
                run_dir=str(self.run_folder.path),
                library=config.library,
                algorithm=config.algorithm or "",
                task=config.task,
                world=self.world,
                num_envs=config.num_envs or 0,
                seed=config.seed,
                config=dataclasses.asdict(config),
            )
        )
        self._started = self._lap = time.monotonic()

    def _merged(self, record: Scalars) -> Scalars:
        now, counter = time.monotonic(), self.env.episodes
        fps = (counter.steps - self._counted) / max(now - self._lap, 1e-9)
        self._lap, self._counted = now, counter.steps
        if not self._iteration:
            self._first = record.iteration - 1
        self._iteration = record.iteration
        told = (dict(record.values), counter.take(), counter.steps, fps)
        ranks = gather_in_step(self.group, f"records iteration {record.iteration}", told)
        self._window.add([rank[1] for rank in ranks])
        self._frames = sum(rank[2] for rank in ranks)
        self._check_target()
        return dataclasses.replace(
            record,
            values=merge_scalars([rank[0] for rank in ranks]),
            frames=self._frames,
            seconds=now - self._started,
            fps=tuple(rank[3] for rank in ranks),
            episode_return=self._window.mean_return,
            episode_length=self._window.mean_length,
        )

    def _check_target(self) -> None:
        target, reached = self.config.target_return, self._window.mean_return
        if target is not None and reached is not None and self._window.full and reached >= target:
            self._solved = self.should_stop = True

    def _shutdown(self, error: BaseException | None) -> None:
        """Let every plugin let go, whatever has happened; then leave the group."""
        errors: list[BaseException] = []
        if self.world.is_root and hasattr(self, "run_folder"):
            try:
                self.record(self._ended(error))
            except Exception as raised:
                errors.append(raised)
        errors += self._plugins.call_each("rltrain_shutdown", session=self, error=error)
        if error is not None:
            for other in errors:
                error.add_note(f"While shutting down: {type(other).__name__}: {other}")
            if self.config.distributed:
                return  # Peers may be gone: closing environment or group could wait for them.
        try:
            if hasattr(self, "env"):
                self.env.close()
        finally:
            if hasattr(self, "group"):
                self.group.close()
        if errors and error is None:
            raise errors[0]

    def _ended(self, error: BaseException | None) -> RunEnded:
        return RunEnded(
            iterations=self._iteration,
            frames=self._frames,
            seconds=time.monotonic() - self._started,
            episode_return=self._window.mean_return,
            solved=self._solved,
            error=f"{type(error).__name__}: {error}" if error else None,
        )

    def _first_result(self, hook: str, kind: str, **arguments: Any) -> Any:
        return self._plugins.first(hook, f"{kind} {getattr(self.config, kind)!r}", **arguments)
