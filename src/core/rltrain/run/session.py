"""One rank's run, from start to shutdown."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from rltrain.errors import PluginError, RltrainError, explain_mismatch
from rltrain.files.secrets import hide, hide_in_text
from rltrain.launch import make_report, say
from rltrain.records import RunStarted
from rltrain.run.agreement import Agreement, agree
from rltrain.run.plugin_session import TrainingSession
from rltrain.seeding import SeedPlan
from rltrain.storage import manifest
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.resume import nothing_to_resume, resumption, with_kept
from rltrain.storage.run_folder import RunFolder
from rltrain.types import TrainResult

if TYPE_CHECKING:
    from rltrain.metrics.environment import CountedEnv


class RankSession(TrainingSession):
    """Takes a rank's session through its run."""

    def run(
        self,
        on_run_folder: Callable[[RunFolder], None] = lambda folder: None,
        on_iteration: Callable[[], None] = lambda: None,
        found: Checkpoint | None = None,
    ) -> TrainResult:
        """Train from start to shutdown; call back for the run folder and each iteration.

        `found` is the checkpoint to start from, if this process has found it already.
        """
        self._on_iteration = on_iteration
        error: BaseException | None = None
        try:
            self.group = self._make_group(self.config, self.world)
            agreement = self._agree(found)
            if agreement.over:
                return self._over(agreement)
            self.run_folder = agreement.run_folder
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
            self.recorder.finish(self.group)
            if self.world.is_root and self.iteration == self._resumption.iteration:
                hint = "has recorded nothing: call session.record(Scalars(...)) each iteration."
                self._output.warn(f"The library {self.config.library!r} {hint}")
        except BaseException as raised:
            error = self._because_of_numbers(raised) or raised
            if error is not raised:
                raise error from raised
            raise
        finally:
            self._shutdown(error)
            self.pulse.phase("ended")
        # Writers may have had something left to write.
        return dataclasses.replace(result, exit_code=self._asked_code or self._output.exit_code)

    def _agree(self, found: Checkpoint | None) -> Agreement:
        """Check that all ranks run the same, apply rank 0's decisions, and read the checkpoint."""
        manifest.check_agreement(self.group, self.config)
        iterations = self._iteration.iterations if self._iteration else self.config.max_iterations
        agreement = agree(self.group, self.config, iterations, found)
        self.config = agreement.config
        if (checkpoint := agreement.checkpoint) is not None:
            self._resumption = resumption(checkpoint, self.config, self.world, self._all_arrays)
            before, anew = self._resumption.agent or {}, self._resumption.anew
            self.config = with_kept(self.config, before, anew, self._restored)
            if self._resumption.progress is not None:
                self.recorder.progress.set_state(self._resumption.progress)
        elif self.config.auto_resume:
            self._resumption = nothing_to_resume(self.config)
        self.seeds = SeedPlan(self.config.seed, self.world.rank, self._resumption.iteration)
        return agreement

    def _over(self, agreement: Agreement) -> TrainResult:
        """Say that the run is over, and return its result."""
        run, progress = agreement.run_folder.path, self.recorder.progress
        if self.world.is_root:
            say(f"{run} is over: {agreement.over} has ended it. Nothing is left to do.")
        found = progress.result(str(run), self.config.checkpoint, False, agreement.over, 0)
        return dataclasses.replace(found, iterations=0, seconds=0.0)

    def _make_env(self) -> CountedEnv:
        from rltrain.metrics.environment import CountedEnv, check_alike

        env = self._make_checked_env()
        check_alike(self.group, env)
        counted = CountedEnv(
            env,
            self.seeds.environment,
            bool(self.config.random_lengths),
            self.arrays,
            self.pulse.during,
            self.recorder.numbers.env,
        )
        with explain_mismatch(self.checkpoint):
            if self.resuming_exactly:
                counted.load_state(self._resumption.rank["env"])
            else:
                counted.load_curricula(self._resumption.curricula)
        return counted

    def _start(self) -> None:
        config, progress = self.config, self.recorder.progress
        if self.world.is_root:
            self._output.begin(self.run_folder, config, self.world, self.seeds)
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
                resumed=self._resumption.text,
                frames=progress.frames,
            )
        )
        progress.start(
            self.group,
            self.env,
            self.recorder.numbers,
            self.arrays,
            lambda: (self.pulse.stepping, self.pulse.waiting),
        )
        self.recorder.requests.start()

    def _because_of_numbers(self, error: BaseException) -> RltrainError | None:
        """Return the true error if a library has stumbled over NaN before its iteration ended."""
        of_library = isinstance(error, Exception) and not isinstance(error, RltrainError)
        if not of_library or make_report(self.world.rank, error).kind == "peer_lost":
            return None
        with contextlib.suppress(Exception):  # The device may have failed.
            return self.recorder.numbers.explain(self.world.rank, self.iteration + 1)
        return None

    def _shutdown(self, error: BaseException | None) -> None:
        """Shut every plugin down, even after errors; then leave the group."""
        errors: list[BaseException] = []
        if self.world.is_root and hasattr(self, "run_folder"):
            try:
                asked, solved = error is None and self._asked_code != 0, self.recorder.solved
                ended = self.recorder.progress.ended(error, solved, asked, self._limit)
                text = ended.error and hide_in_text(ended.error, vars(self.config))
                self.record(dataclasses.replace(ended, error=text))
            except Exception as raised:
                errors.append(raised)
        errors += self._output.shut_down(session=self, error=error)
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
