"""The dataclasses and protocols that cross a hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rltrain.config import Placement
from rltrain.ranks.world import World

if TYPE_CHECKING:
    import argparse

__all__ = [
    "ArrayInfo",
    "Arrays",
    "Command",
    "Fingerprints",
    "GradientSync",
    "Iteration",
    "Launcher",
    "ProcessGroup",
    "ReduceOp",
    "Stream",
    "TaskInfo",
    "TrainResult",
    "World",
]

Stream = Literal["model", "environment", "learner"]
"""The streams of random numbers; see `rltrain.seeding`."""

ReduceOp = Literal["sum", "mean", "min", "max"]
"""How `ProcessGroup.all_reduce` combines the ranks' arrays."""


Fingerprints = Callable[[], Mapping[str, Any]]
"""Returns fingerprints by tensor name: equal on two ranks where the tensors are equal."""


class ProcessGroup(Protocol):
    """The collectives that the core and the adapters use. Every rank calls each in the same order.

    Arrays are the backend framework's, on the rank's device, or numpy's.
    """

    @property
    def rank(self) -> int:
        """Global rank of this process."""

    @property
    def world_size(self) -> int:
        """Number of ranks."""

    @property
    def device(self) -> str:
        """Device of this rank."""

    def all_reduce(self, x: Any, op: ReduceOp = "sum") -> Any:
        """Return `x` combined over all ranks by element: of one shape and dtype everywhere.

        The argument may be reused: read the result.
        """

    def broadcast(self, x: Any, src: int = 0) -> Any:
        """Return rank `src`'s array on every rank; `x` has its shape and dtype everywhere."""

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        """Return rank `src`'s object on every rank.

        It must be data only (`rltrain.data.pack_object`), or rank `src` raises TypeError.
        """

    def gather_objects(self, obj: Any, dst: int | None = None) -> list[Any]:
        """Return every rank's object, in the order of ranks; to all but rank `dst` an empty list.

        The objects are data only, as for `broadcast_object`. `dst` None means every rank.
        """

    def barrier(self) -> None:
        """Wait until every rank has reached this point."""

    def close(self) -> None:
        """Leave the group. Safe to call twice, and after an error."""


class Arrays(Protocol):
    """What the core does with a framework's arrays. `BackendSpec.arrays` names a class of these.

    Its methods import the framework; its module must not.
    """

    def owns(self, x: Any) -> bool:
        """Return whether an object is an array of this framework, without importing it."""

    def to_host(self, x: Any) -> tuple[Any, bool]:
        """Return an array as one of numpy, and whether it was on the CPU."""

    def view_on_host(self, x: Any) -> Any:
        """Return a numpy array that shares its memory on the CPU, where numpy is faster; or `x`."""

    def from_host(self, array: Any, device: str) -> Any:
        """Return a numpy array as one of this framework on a device, with memory of its own."""

    def zeros_like(self, x: Any) -> Any:
        """Return zeros of the same shape and dtype, on the same device."""

    def floats(self, values: tuple[Any, ...]) -> tuple[float, ...]:
        """Return arrays of one number each as floats, waiting for the device once."""

    def finite(self, x: Any) -> Any:
        """Return an array with 0 in the place of NaN and infinity."""

    def norms(self, gradients: Any) -> Any:
        """Return a norm of each gradient in one array (gradients,), without waiting for the device.

        The norm of a gradient that is None is 0; of one with a number that is not finite, not
        finite. Of none at all, the result is None.
        """

    def names(self, parameters: Any, models: Mapping[str, Any]) -> list[str]:
        """Return the names of a gradient sync's parameters, in the order of `norms`.

        `models` are those, by role, to which they may belong.
        """

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of arrays as one program: the same one for the same function."""


class GradientSync(Protocol):
    """Averages gradients over ranks: one object per optimizer, which keeps its buffers."""

    def __call__(self, gradients: Any) -> Any:
        """Return the gradients averaged over ranks, with the structure they came in.

        For torch they are a list with one tensor or None per parameter, in the order of the
        parameters, and the averages may share one buffer that the sync keeps; for jax they are a
        pytree. A gradient that is None on every rank stays None. The session's sync returns None on
        all ranks for an update that is to be left out, with its parameters and the state of its
        optimizer unchanged (--on-nonfinite skip).
        """


class Command(Protocol):
    """A command that a plugin adds. `CommandSpec.factory` names a class of these.

    The class's docstring is what `rltrain NAME --help` prints: its first paragraph before the
    flags, the rest after them.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's flags. It is called before each run and for `--help`: keep it light."""

    def run(self, arguments: argparse.Namespace, rest: list[str]) -> int:
        """Do what the command is for, and return the exit status.

        `rest` are the words that the command reads itself; see `CommandSpec.takes`. An error of the
        user is a `rltrain.errors.UsageError`, which is printed without a traceback.
        """


class Launcher(Protocol):
    """Starts the ranks of a run and watches them."""

    def launch(self, config: Placement, work: Callable[..., TrainResult | None]) -> TrainResult:
        """Start this node's ranks, wait for them, and return what rank 0 returned.

        On several nodes, `rltrain.nodes.connected_nodes` lets launchers meet and watch each other.

        Each rank calls `work(config, report_dir)` with the variables RANK, LOCAL_RANK, WORLD_SIZE,
        LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. On one node the port is free: rank 0 may
        listen there.

        A launcher whose spec says `starts_nodes` calls `work(options)` in one process on each node
        instead. It plans the node's part of the run, with these options in place of the user's,
        such as {"node_rank": 1}, starts the node's ranks, and returns as `launch` does. It can be
        pickled.

        Raises:
            rltrain.errors.RankFailed: a rank failed; the others have been ended.
            rltrain.errors.UsageError: a rank refused the options.
        """


@dataclass(frozen=True)
class ArrayInfo:
    """One environment's observations of one group."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    """Numpy's name of the dtype."""

    @property
    def is_image(self) -> bool:
        """Whether it is an image: height, width and channels, in this order.

        Bytes from 0 to 255 are divided by 255 for networks; float32 is left unchanged.
        """
        return len(self.shape) == 3 and self.dtype in ("uint8", "float32")


@dataclass(frozen=True)
class TaskInfo:
    """What a suite knows of a task without making its environment."""

    name: str
    action: Literal["continuous", "discrete", "multi_discrete"]
    num_envs: int = 8
    """Default number of environments per rank."""
    max_episode_length: int | None = None
    """In steps; None if episodes are not truncated."""
    random_lengths: bool = False
    """Whether the task's own trainer lets the first episodes have random lengths."""
    options: Mapping[str, Any] | None = None
    """The `env.` options with their defaults; None if unknown before the environment is made."""
    observations: Mapping[str, ArrayInfo] | None = None
    """The observation groups by name, or `policy` alone; None if unknown before the environment is
    made. Where images are known, vectors may be left out."""
    actions: tuple[int, ...] | None = None
    """The one size of a vector of continuous actions, or the number of choices of each discrete
    action; None if unknown before the environment is made."""
    library: str | None = None
    """The library that the task's authors chose, which is the default."""
    agents: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The sets of a library's options that are registered with the task, by name: for each the
    library and its algorithm. `--agent-config NAME` chooses one."""
    agent: str | None = None
    """The set that the user chose, which the suite's `tuned` returns."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """The `env.` options on which the suite's tuned options depend, nested."""

    @property
    def images(self) -> tuple[str, ...]:
        """The image groups that the policy sees, as far as known, without the critic's."""
        groups = self.observations or {}
        return tuple(name for name, x in groups.items() if x.is_image and name != "critic")

    @property
    def has_images(self) -> bool:
        """Whether the policy's observations include an image, as far as known."""
        return bool(self.images)


@dataclass(frozen=True)
class Iteration:
    """The size and number of a run's iterations, according to the library's options."""

    steps: int
    """Steps of every environment in one iteration."""
    iterations: int | None = None
    """Iteration at which training ends; None if the options do not say."""
    replay_rows: int | None = None
    """Rows of a rank's replay buffer, over all environments; None if the library learns from the
    iteration's rollout instead."""
    mini_batches: int | None = None
    """Number of mini-batches of a rank's rollout; None if it is not split."""

    def experience(self, num_envs: int, ranks: int) -> str:
        """Describe how many frames a run learns from; `num_envs` counts a rank's environments."""
        frames = self.steps * num_envs * ranks
        shared = f" x {ranks} ranks" if ranks > 1 else ""
        text = f"{num_envs} environments x {self.steps} steps{shared} = {frames:,} frames"
        if self.iterations is None:
            return f"{text} an iteration"
        total = f"{frames * self.iterations:,} in {self.iterations} iterations"
        return f"{text} an iteration, {total}"


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a run, which rank 0 returns."""

    iterations: int
    """Iterations done in this run."""
    frames: int
    """Environment steps over all environments and ranks, including those before a checkpoint."""
    episode_return: float | None
    """Mean return of the last finished episodes over all ranks; None if none finished."""
    episode_length: float | None
    """Mean length of the same episodes, in steps."""
    run_dir: str
    """The run folder."""
    checkpoint: str | None = None
    """Path of the last checkpoint."""
    solved: bool = False
    """Whether it reached its target return."""
    seconds: float = 0.0
    """Wall time of training, in seconds."""
    limit: str = ""
    """The option that ended the run early: "agent.params.config.max_frames=100000"."""
    exit_code: int = 0
    """The exit status of the command: 75 if a signal has ended the run, which resumes if it is
    started again; 130 after Ctrl-C (`rltrain.train` raises in place of returning these two); 74 if
    the disk has not taken the last checkpoint, the manifest or a writer's records."""
