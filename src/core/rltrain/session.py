"""The session: one rank's interface to the run, as plugins see it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rltrain.config import RunConfig
from rltrain.records import Record, Scalars
from rltrain.seeding import SeedPlan
from rltrain.types import Fingerprints, GradientSync, ProcessGroup, Stream, TrainResult, World

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

__all__ = ["RunPaths", "Session"]


class RunPaths(Protocol):
    """Where a run's files are."""

    @property
    def path(self) -> Path:
        """The run folder."""

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""


class Session(Protocol):
    """A plugin's interface to the run, on one rank."""

    should_stop: bool
    """Whether to end training after this iteration. Equal on all ranks."""

    @property
    def world(self) -> World:
        """This rank's place and device."""

    @property
    def config(self) -> RunConfig:
        """The resolved run; `config.agent` has the library's options, `config.env` the task's."""

    @property
    def framework(self) -> str:
        """The tensor framework of this run: "torch" or "jax"."""

    @property
    def group(self) -> ProcessGroup:
        """The process group; without `--distributed` it has one rank."""

    @property
    def seeds(self) -> SeedPlan:
        """This rank's seeds."""

    @property
    def run_folder(self) -> RunPaths:
        """Where rank 0 writes."""

    @property
    def env(self) -> VectorEnv[Any, Any, Any]:
        """This rank's environments, once they are made. Stepping them counts episodes."""

    @property
    def iteration(self) -> int:
        """Iterations done, including those before `checkpoint`."""

    @property
    def batch_rows(self) -> int:
        """Rows of this rank's mini-batches; by default of one step of its environments."""

    @property
    def renders(self) -> bool:
        """Whether this rank's environments are rendered: `render()` must return frames."""

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint to start from. Every rank loads it, to its own device."""

    @property
    def rank_state(self) -> Any:
        """The `rank_state` saved with `checkpoint`; None if it does not fit this run."""

    @property
    def resuming_exactly(self) -> bool:
        """Whether the run continues bit for bit where the checkpoint was written.

        Then the environments are in the state that was saved, the first `env.reset()` returns their
        observations, and `seed("learner")` restores the random generators.
        """

    @property
    def given_anew(self) -> Collection[str]:
        """Dotted keys of `config.agent` that the user gives with `checkpoint`.

        The run that wrote it had other values. These count: see `rltrain_adapters.as_given`.
        """

    @property
    def should_save(self) -> bool:
        """Whether to save a checkpoint after this iteration (--checkpoint-interval).

        Equal on all ranks. `record` sets it.
        """

    def from_host(self, array: Any) -> Any:
        """Return a numpy array as one of the run's framework, on this rank's device.

        It has memory of its own, and the array's dtype (for jax, of 32 bits at most).
        """

    def to_host(self, x: Any) -> Any:
        """Return an array of the run's framework, such as a batch of actions, as one of numpy."""

    def seed(self, stream: Stream) -> None:
        """Let every plugin seed its generators for a stream (hook `rltrain_seed`).

        `learner` is the last stream to begin. When a run continues exactly, all generators are then
        restored (hook `rltrain_load_state`).
        """

    def iterations_left(self, total: int, done: int) -> int:
        """Return how many iterations are left of `total` after `done`; none is a `UsageError`."""

    def wrap_model(self, model: Any, role: str) -> Any:
        """Give a model rank 0's state and return it (hook `rltrain_wrap_model`). Collective."""

    def gradient_sync(
        self, parameters: Any, *, extras: int = 0, may_overflow: bool = False
    ) -> GradientSync:
        """Make the gradient sync of one optimizer (hook `rltrain_gradient_sync`). Collective.

        After the optimizer's, the last `extras` of the parameters are no gradients, but arrays that
        are averaged in the same collective: a KL divergence that decides on the step. They may be
        infinite. `may_overflow` says that infinite gradients are no fault: a scaler for mixed
        precision leaves out such updates.
        """

    def watch(self, role: str, fingerprints: Fingerprints) -> None:
        """Register tensors with the divergence check: what is learned next to wrapped models.

        A library that learns nothing says so: `watch("nothing", dict)`.
        """

    def record(self, record: Record) -> Record:
        """Send one event to the writers. Every rank calls it; collective for `Scalars`.

        Returns:
            The record as the writers saw it: for `Scalars`, merged over ranks.

        Raises:
            DivergenceError: ranks are at different iterations; or, after the first and every
                `config.check_interval` iterations, their watched tensors differ.
            NonFiniteError: a rank has NaN or infinity (--on-nonfinite).
        """

    def add_metric(self, name: str, value: Any) -> None:
        """Add a number to the metrics of this iteration, such as "gradients/sent", from any plugin.

        It may be an array of one on its device. Several of one name are averaged, over ranks too,
        as in `Scalars.values`. Not collective: ranks may add different ones. The library's next
        `record` sends them to the writers.
        """

    def save_checkpoint(
        self, name: str, save: Callable[[Path], Any], iteration: int, rank_state: Any = None
    ) -> None:
        """Save a checkpoint on rank 0; it is complete or absent. Collective.

        If the disk does not take it, training continues, and `should_save` soon asks for another.

        Call it on every rank, after the iteration's `record`. The checkpoint also holds what each
        rank needs to continue bit for bit: its generators, its environments if the task can save
        their state, and its `rank_state`.

        Args:
            name: file name in the run folder's `checkpoints`.
            save: writes the library's own format to the path that it is given; called on rank 0.
            iteration: iterations done.
            rank_state: this rank's own state, picklable and on the host: recurrent states, a replay
                buffer. A resumed run gets it back as `session.rank_state`.
        """

    def end_iteration(
        self,
        scalars: Scalars,
        name: str,
        save: Callable[[Path], Any],
        *,
        due: bool = False,
        rank_state: Callable[[], Any] = lambda: None,
    ) -> bool:
        """Record an iteration, save a checkpoint if one is due, and return whether to stop.

        For libraries whose loop is the adapter's; others call `record` and `save_checkpoint`
        themselves. A checkpoint is due at the end, and where `should_save` or the library says so.
        Collective: the answer is equal on all ranks.

        Args:
            scalars: as for `record`.
            name: as for `save_checkpoint`, and `save`.
            save: writes the library's own format to a path.
            due: whether the library's own options ask for a checkpoint.
            rank_state: returns this rank's own state; called if a checkpoint is saved.
        """
        ...

    def result(self, limit: str = "") -> TrainResult:
        """Return the outcome of the run so far.

        `limit` is the option of the library that ended training before its iterations were done, by
        its key in `config.agent`: resuming with the same limit then does nothing.
        """
