"""What a plugin declares: one spec for each thing it provides.

A spec is light: it names the heavy class by an import string, so that listing plugins imports
neither a tensor framework nor an RL library nor a simulator.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rltrain.config import RunConfig
from rltrain.errors import PluginError
from rltrain.types import Iteration, TaskInfo

__all__ = [
    "KINDS",
    "BackendSpec",
    "Conflict",
    "GradientSyncSpec",
    "LauncherSpec",
    "LibrarySpec",
    "ObserverSpec",
    "Refusal",
    "Spec",
    "SuiteSpec",
    "WriterSpec",
    "load_object",
]


@dataclass(frozen=True)
class Conflict:
    """Installed packages that do not work together, though they do not say so themselves."""

    packages: Mapping[str, str]
    """By distribution, the versions that make the conflict: "<9.8", or "" for any. It is there
    where all of them are installed."""
    reason: str
    """What goes wrong."""
    instead: str
    """What to do."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every kind declares."""

    kind: ClassVar[str]
    requires: ClassVar[tuple[str, ...]] = ()
    """The hooks (for a launcher: methods) that the factory's class must implement."""

    name: str
    """What the user types."""
    factory: str
    """Import string of the class, "package.module:Class". It is called without arguments, or with
    the plugin's options if the spec names some."""
    options: str | None = None
    """Import string of a frozen dataclass with the plugin's options. Each field has a default, and
    a docstring under it for `rltrain plugins NAME`. Users set `NAME.field=value`. The module is
    imported when a run is planned: like the plugin's own, it must be light."""
    summary: str = ""
    """One line for `rltrain plugins`."""
    conflicts: tuple[Conflict, ...] = ()
    """What `rltrain doctor` is to look for, besides what it knows."""

    def supports(self) -> str:
        """Return in a few words what this one supports."""
        return self.summary


@dataclass(frozen=True, kw_only=True)
class BackendSpec(Spec):
    """Makes a process group on one kind of device."""

    kind = "backend"
    requires = ("rltrain_init_distributed", "rltrain_seed", "rltrain_wrap_model")

    framework: str
    """The tensor framework: "torch" or "jax"."""
    about: str | None = None
    """Import string of a function that returns what the framework says of itself by name: what it
    was built for, for one. For `rltrain doctor`, which calls it in a process of its own."""
    filled: str | None = None
    """Import string of a function that takes a size, a number and a device and returns a vector of
    32-bit floats there, for `rltrain doctor` to all-reduce. None: a vector of numpy."""
    fallbacks: tuple[Mapping[str, str], ...] = ()
    """Environment variables that help where ranks cannot talk to each other. `rltrain doctor` tries
    one set after the other, in this order."""
    device: str
    """The kind of device: "cpu" or "cuda"."""
    launcher: str | None = None
    """The launcher of its ranks, unless the user names another."""
    grad_sync: str | None = None
    """The gradient sync of its runs, unless the user names another."""
    shares: tuple[str, ...] = ()
    """Kinds of devices that it serves too, where `--device` names one with it. Ranks may share
    those: there may be more ranks than devices."""
    count_devices: str | None = None
    """Import string of a function that returns how many devices other than the CPU are visible. It
    may import the framework: it is called in a process of its own."""

    def kind_of_device(self, asked: str | None) -> str:
        """Return the kind of its ranks' devices: that of a device which was asked for, or its own.

        Args:
            asked: such as "cuda" or "cuda:1".
        """
        kind = (asked or "").partition(":")[0]
        return kind if kind in self.shares else self.device

    def supports(self) -> str:
        """Return framework and devices."""
        shared = "".join(f", or {kind} with --device {kind}" for kind in self.shares)
        return f"{self.framework} on {self.device}{shared}"


@dataclass(frozen=True)
class Refusal:
    """A combination that would train nonsense, hang or fail."""

    name: str
    """Short, for the support matrix: "kl_threshold on several ranks"."""
    applies: Callable[[RunConfig, TaskInfo], bool]
    """Whether the resolved run is this combination."""
    reason: str
    """Why it cannot work."""
    instead: str
    """The nearest thing that works."""


@dataclass(frozen=True, kw_only=True)
class LibrarySpec(Spec):
    """Adapts one RL library."""

    kind = "library"
    requires = ("rltrain_train",)

    frameworks: tuple[str, ...]
    algorithms: tuple[str, ...]
    """What is offered; the first is the default."""
    default_agent: Callable[[TaskInfo, str], Mapping[str, Any]]
    """Given the task and the algorithm, return agent options in the library's own format."""
    in_framework: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = field(
        default_factory=dict
    )
    """By framework, what says defaults, which are written for the first of `frameworks`, in that
    one's words, where they differ."""
    required_keys: tuple[str, ...]
    """Dotted keys by which a file in this library's format is told from another library's."""
    option_keys: frozenset[str] = frozenset()
    """Dotted keys that may be overridden although the loaded file does not have them."""
    run_keys: Mapping[str, str] = field(default_factory=dict)
    """Where the library's file keeps options of the run: {"seed": "params.seed"}. The command line
    is put before the file, and the file before rltrain's own default."""
    refuses: tuple[Refusal, ...] = ()
    iteration: Callable[[RunConfig], Iteration] | None = None
    """Given the resolved run, return what its options say of iterations. Raises `UsageError`, with
    the arithmetic, where the options' mini-batches do not fit a rank's batch."""
    scale_mini_batches: Callable[[Mapping[str, Any], int, int], Mapping[str, Any]] | None = None
    """Given all options, the number of environments that they were written for and the number that
    a rank has, return options with as many mini-batches as they had. None: the options say how many
    there are, not how large. Raises `UsageError`, with the arithmetic, where that cannot be."""
    read_checkpoint: str | None = None
    """Import string of a function that takes a path and returns the top-level keys of the
    checkpoint there, or in one sentence why it cannot be read. It may import the framework: before
    ranks are started, it is called in a process of its own."""
    checkpoint_keys: frozenset[str] = frozenset()
    """Keys by which a checkpoint of this library is told from another's."""

    def supports(self) -> str:
        """Return frameworks and algorithms."""
        return f"{', '.join(self.algorithms)} on {', '.join(self.frameworks)}"


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(Spec):
    """Makes the environments of one family of tasks."""

    kind = "suite"
    requires = ("rltrain_make_env",)

    frameworks: tuple[str, ...]
    """Whose arrays its environments give."""
    describe: Callable[[str], TaskInfo | None]
    """Return what is known of a task, or None if the suite does not have it. Raises `UsageError`
    for a task that it has but cannot make here."""
    tasks: Callable[[], list[str]]
    """Return the names of all tasks, for `rltrain tasks` and for suggestions."""
    renders: bool = False
    """Whether its environments, where `session.renders`, return frames from `render()`. What only
    some of its tasks cannot draw it refuses, by `UsageError`, when they are made."""
    tuned: Callable[[TaskInfo, str, str], Mapping[str, Any] | None] | None = None
    """Given a task, a library and its algorithm, return options that are known to learn the task,
    in the library's own format, or None if there are none; see `rltrain.options.tuned`."""
    upgrades: Mapping[str, str] = field(default_factory=dict)
    """By library, which of the simulator's own scripts go on working with the versions that the
    library's plugin adapts: told where the installed one is another, as simulators pin it."""


@dataclass(frozen=True, kw_only=True)
class LauncherSpec(Spec):
    """Starts the ranks."""

    kind = "launcher"
    requires = ("launch",)

    frameworks: tuple[str, ...]
    """The frameworks whose ranks it can start."""
    lacks: tuple[str, ...] = ()
    """Options of the run that are for launchers, but not for this one: they are refused."""


@dataclass(frozen=True, kw_only=True)
class WriterSpec(Spec):
    """Records metrics, on rank 0."""

    kind = "writer"
    requires = ("rltrain_write",)


@dataclass(frozen=True, kw_only=True)
class GradientSyncSpec(Spec):
    """Averages gradients over ranks."""

    kind = "gradient_sync"
    requires = ("rltrain_gradient_sync",)

    frameworks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ObserverSpec(Spec):
    """Wraps or watches hooks."""

    kind = "observer"

    renders: bool = False
    """Whether it renders the environments of rank 0: their `render()` must return frames. A run
    with a suite that does not render is refused."""
    refuses: tuple[Refusal, ...] = ()
    """Runs in which it cannot work."""


KINDS: dict[str, type[Spec]] = {
    spec.kind: spec
    for spec in (
        BackendSpec,
        LibrarySpec,
        SuiteSpec,
        LauncherSpec,
        WriterSpec,
        GradientSyncSpec,
        ObserverSpec,
    )
}
"""The seven kinds by name. `KINDS[kind].requires` is what each must implement."""


def load_object(path: str) -> Any:
    """Import what an import string "package.module:name" names."""
    module, colon, name = path.partition(":")
    if not colon:
        raise PluginError(f"The import string {path!r} must be written package.module:Class")
    return getattr(importlib.import_module(module), name)
