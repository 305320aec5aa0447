"""What a plugin declares: one spec for each thing it provides.

A spec is light: it names the heavy class by an import string, so that listing plugins imports
neither a tensor framework nor an RL library nor a simulator.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from rltrain.clusters import StartedNode, StartedRank
from rltrain.config import RunConfig
from rltrain.errors import PluginError
from rltrain.types import Iteration, TaskInfo

__all__ = [
    "KINDS",
    "BackendSpec",
    "CheckpointFormat",
    "Choices",
    "ClusterSpec",
    "CommandSpec",
    "Dialect",
    "DoctorChecks",
    "GradientSyncSpec",
    "Ignored",
    "Keys",
    "LauncherSpec",
    "LibrarySpec",
    "ObserverSpec",
    "OptionSchema",
    "Refusal",
    "Said",
    "Spec",
    "SuiteSpec",
    "WriterSpec",
    "load_object",
    "refusals",
]


@dataclass(frozen=True, kw_only=True)
class DoctorChecks:
    """What a plugin reports to `rltrain doctor`."""

    findings: Iterable[tuple[str, str]] = ()
    """What is wrong here, and what to do: installed packages that do not work together, say."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """By framework, the import string of a function that returns facts about it by name. It is
    called in a separate process."""
    remedies: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    """By backend, sets of environment variables to try in turn if its ranks cannot communicate."""


Said = Sequence[str] | Callable[[str], Sequence[str]]
"""Of a `Dialect`: a flag in rltrain's words; or for a flag that takes a value, a function of the
value that returns them, or raises `UsageError`."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What users of another program type: translated, or refused with a reason.

    Nothing is dropped in silence. A plugin's dialect counts although what it adapts is not
    installed.
    """

    program: str
    """What its users call it."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """By command of its own, the command to type instead."""
    trains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By command that trains, what else `rltrain train` is then given, such as "--distributed".
    "--default-library", "NAME" names the library if the user does not."""
    flags: Mapping[str, Said] = field(default_factory=dict)
    """By flag of any command that takes options."""
    train_flags: Mapping[str, Said] = field(default_factory=dict)
    """By flag of `train` alone."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """By flag of `train` that takes a value and changes nothing, a line on what rltrain does. Other
    spellings follow the flag, after spaces."""
    translate: Callable[[list[str]], list[str]] | None = None
    """For what no table says: given the words of a command that takes options, return them in
    rltrain's syntax. What it does not know it leaves. Raises `UsageError`."""
    hands_over: Callable[[list[str]], list[str] | None] | None = None
    """Given the words of `train`, return the command line of the other program that is to start it
    in rltrain's place; None if rltrain can. Raises `UsageError`."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """By flag that commands with options refuse, a message that names it, the reason and what to
    type instead; see `refusals`."""
    refuses_of_policies: Mapping[str, str] = field(default_factory=dict)
    """Those that commands that use a policy refuse, or refuse for another reason."""


def refusals(rows: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Return the message for each refused flag.

    Args:
        rows: flags without their dashes, why they are refused, and what to type instead.

    Examples:
        >>> refusals([("sigma", "it is an option of the network.", "Set agent.sigma=VALUE.")])
        {'--sigma': '--sigma: it is an option of the network. Set agent.sigma=VALUE.'}
    """
    return {
        flag: f"{flag}: {reason} {instead}"
        for names, reason, instead in rows
        for flag in (f"--{name}" if len(name) > 1 else f"-{name}" for name in names.split())
    }


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every kind declares."""

    kind: ClassVar[str]
    requires: ClassVar[tuple[str, ...]] = ()
    """The hooks (for a launcher or a command: methods) that the factory's class must implement."""

    name: str
    """What the user types."""
    factory: str
    """Import string of the class, "package.module:Class". It is given the plugin's options, if the
    spec names some, and nothing else."""
    options: str | None = None
    """Import string of a frozen dataclass with the plugin's options. Each field has a default, and
    a docstring under it for `rltrain plugins NAME`. Users set `NAME.field=value`. The module is
    imported when a run is planned: like the plugin's own, it must be light."""
    summary: str = ""
    """One line for `rltrain plugins`."""
    overridable: bool = False
    """Whether another plugin of the same name takes its place, as a live view that of plain lines.
    Otherwise a name that is provided twice is an error where it is used."""

    def supports(self) -> str:
        """Describe in a few words what this plugin supports."""
        return self.summary


@dataclass(frozen=True, kw_only=True)
class BackendSpec(Spec):
    """Makes a process group on one kind of device."""

    kind = "backend"
    requires = ("rltrain_init_distributed", "rltrain_seed", "rltrain_wrap_model")

    framework: str
    """The tensor framework: "torch" or "jax"."""
    arrays: str | None = None
    """Import string of the class that handles the framework's arrays: `rltrain.types.Arrays`."""
    exporter: str | None = None
    """Import string of the class that exports its policies: `rltrain.policy.Exporter`."""
    joins_first: bool = False
    """Whether a process must not use the framework before it has joined its ranks."""
    needs_master: bool = True
    """Whether its ranks meet at the master's address, which must then be given."""
    is_default: bool = False
    """Whether it is the default for its framework and kind of device: at most one may be. What it
    names (launcher, gradient sync, arrays, exporter) counts for the framework's other backends that
    do not. Leave it False next to torch's and jax's own."""
    device: str
    """The kind of device: "cpu" or "cuda"."""
    preload: str | None = None
    """A module that imports what each rank needs of the framework. It is imported once, before
    ranks are forked: it must open no device and start no thread. None for that of the framework's
    other backends."""
    launcher: str | None = None
    """The default launcher of its ranks; None for that of the framework's usual backends."""
    grad_sync: str | None = None
    """The default gradient sync of its runs; None for that of the framework's usual backends."""
    shared_devices: tuple[str, ...] = ()
    """Further kinds of devices that it supports by `--device`; more ranks than there are may share
    them."""
    why_not_shared: str | None = None
    """Import string of a function that returns why ranks cannot share devices of its own kind here,
    or None if they can; without it, they never do. It is called in a separate process."""
    count_devices: str | None = None
    """Import string of a function that returns the number of visible devices other than the CPU. It
    is called in a separate process."""

    def kind_of_device(self, requested: str | None) -> str:
        """Return the kind of the ranks' devices: the requested "cuda" or "cuda:1" if shared."""
        kind = (requested or "").partition(":")[0]
        return kind if kind in self.shared_devices else self.device

    def supports(self) -> str:
        """Describe framework and devices."""
        shared = "".join(f", or {kind} with --device {kind}" for kind in self.shared_devices)
        more = f" ({self.summary})" if self.summary else ""
        return f"{self.framework} on {self.device}{shared}{more}"


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
    option: str = ""
    """The dotted key of the agent's option that is to blame, if one is: users see its value."""


@dataclass(frozen=True)
class Keys:
    """The keys of a section of a library's options."""

    known: Collection[str]
    """Those that the installed library takes."""
    required: Collection[str] = ()
    """Those of them that it cannot do without."""
    open: bool = False
    """Whether other programs may keep theirs next to these: one that is nearly a known key is
    refused, and any other is mentioned."""


@dataclass(frozen=True)
class Choices:
    """The words that an option of a library takes."""

    noun: str
    """What each names, such as "optimizer"."""
    allowed: Collection[str]
    """Those that the installed library has. None if that is not known: any word is then taken."""
    ignore_case: bool = False
    """Whether the library takes them in small and capital letters alike."""


@dataclass(frozen=True)
class Ignored:
    """An option that means something to another program, such as the library's own scripts."""

    instead: str
    """The rltrain equivalent: "Give --writer NAME"."""
    off: Collection[Any] = (False, "")
    """Values that mean nothing there either, besides null."""
    if_typed: bool = False
    """Whether most files have it, with no harm: users see it where they type it themselves."""


def _nothing(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class OptionSchema:
    """What a library's options may be, in its own format.

    `keys`, `choices` and `ignored` are given the options of a run. Read what the installed library
    takes from its sources, which imports nothing: see `rltrain_adapters.sources`.
    """

    required: tuple[str, ...]
    """Dotted keys that identify a file in this library's format."""
    also: frozenset[str] = frozenset()
    """Dotted keys that may be overridden although the loaded file does not have them, besides those
    of `keys`."""
    check_types: bool = False
    """Whether an option takes only values of its default's kind (a switch, a number, a list), or
    none: others are then refused before ranks start. Leave it off where a number may be written as
    text, such as a schedule `lin_3e-4`."""
    keys: Callable[[Mapping[str, Any]], Mapping[str, Keys]] = _nothing
    """Return by section the keys that the library takes there; sections are named by dotted keys,
    and all of the options by "". Other keys in a user's file, and missing ones, are refused."""
    choices: Callable[[Mapping[str, Any]], Mapping[str, Choices]] = _nothing
    """Return by dotted key the words that the library takes there. Others are refused."""
    ignored: Callable[[Mapping[str, Any]], Mapping[str, Ignored]] = _nothing
    """Return by dotted key the options that have no effect here. Users hear of them, wherever they
    come from."""
    is_safe_value: Callable[[str, str], bool] | None = None
    """Given a dotted key and a text there, whether the library can do no harm with it, although it
    is more than a word: a class of its own, an expression that only computes. Other text in the
    options of a run folder is refused without --trust, unless the task's own options have it."""
    run_keys: Mapping[str, str] = field(default_factory=dict)
    """Where the library's file keeps options of the run: {"seed": "params.seed"}. Flags come before
    the file, and the file before rltrain's own default."""
    restored: Collection[str] = ()
    """Patterns of dotted keys of numbers that a checkpoint holds too, such as learning rates. What
    the user gives of these to a resumed run is in `Session.given_anew`: the library keeps it as it
    loads a checkpoint."""


@dataclass(frozen=True)
class CheckpointFormat:
    """How to recognize a library's checkpoints."""

    read: str
    """Import string of a function that takes a path, and whether the user trusts the file. It
    returns a list of its top-level keys, or one sentence that says why it cannot be read. Unless
    the file is trusted, it must not run code that the file names: see
    `rltrain_adapters.unpickling`. It is called in a separate process before ranks are started."""
    keys: frozenset[str]
    """Those that each checkpoint of the library has, and others do not."""


@dataclass(frozen=True, kw_only=True)
class LibrarySpec(Spec):
    """Adapts one RL library."""

    kind = "library"
    requires = ("rltrain_train",)

    frameworks: tuple[str, ...]
    algorithms: tuple[str, ...]
    """The algorithms to choose from; the first is the default."""
    schema: OptionSchema
    """What its options may be."""
    default_agent: Callable[[TaskInfo, str], Mapping[str, Any]]
    """Given the task and the algorithm, return agent options in the library's own format."""
    convert_defaults: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = field(
        default_factory=dict
    )
    """By framework, a function that converts default options, written for the first one, to it."""
    read_file: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """Return what a user's file holds in the library's format, without other programs' sections."""
    refuses: tuple[Refusal, ...] = ()
    iteration: Callable[[RunConfig], Iteration] | None = None
    """Given the resolved run, return the size and number of its iterations. Raises `UsageError`,
    with the arithmetic, if the options' mini-batches do not fit a rank's batch."""
    scale_mini_batches: Callable[[Mapping[str, Any], int, int], Mapping[str, Any]] | None = None
    """Given all options, the number of environments that they were written for and the number that
    a rank has, return options with the original number of mini-batches, or raise `UsageError` with
    the arithmetic. None if the options set the number of mini-batches, not their size."""
    checkpoint: CheckpointFormat | None = None
    """Lets a run refuse a file that is none of the library's, before ranks start."""
    preload: Mapping[str, str] = field(default_factory=dict)
    """As `BackendSpec.preload`, by kind of device, such as "cpu"."""

    def supports(self) -> str:
        """Describe algorithms and frameworks."""
        return f"{', '.join(self.algorithms)} on {', '.join(self.frameworks)}"


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(Spec):
    """Makes the environments of one family of tasks."""

    kind = "suite"
    requires = ("rltrain_make_env",)

    frameworks: tuple[str, ...]
    """The frameworks whose arrays its environments can return."""
    describe: Callable[[str, Mapping[str, Any]], TaskInfo | None]
    """Given a task and the run's `env.` options, nested, return what is known of the task with
    these options, or None if the suite does not have it. Raises `UsageError` for a task that it has
    but cannot make here. Where it imports a simulator, see
    `rltrain.launch.environments_are_made_here`."""
    tasks: Callable[[], Iterable[str]]
    """Return the names of all tasks, for `rltrain tasks` and for suggestions."""
    undiscovered_tasks: Callable[[str | None], Iterable[str]] | None = None
    """Return the names "module:Name" of tasks in the sources of the module that the user names, or
    with None of all installed packages (`rltrain_adapters.sources`), for suggestions."""
    probably_has: Callable[[str], bool] | None = None
    """Whether a task seems to be the suite's, by names and sources (`rltrain_adapters.sources`)
    that are not imported. For suites whose `describe` starts a simulator: it is then called for
    such tasks, if the user names the suite, and for "module:Name" that no other suite has."""
    renders: bool = False
    """Whether its environments, where `session.renders`, return frames from `render()`."""
    why_not_rendered: Callable[[TaskInfo], str | None] | None = None
    """Return why a task's environments cannot be rendered on this machine, such as "a package is
    not installed"; or None if they can, as far as is known before ranks start."""
    mujoco_scenes: bool = False
    """Whether the environments of all its tasks offer `mujoco_scene` (docs/environments.md): then a
    viewer needs no `render()`."""
    tuned: Callable[[TaskInfo, str, str], Mapping[str, Any] | None] | None = None
    """Given a task, a library and its algorithm, return options that are known to learn the task,
    in the library's own format, or None; see `rltrain_adapters.tuned_options_from`. If they depend
    on `env.` options, `describe` keeps those in `TaskInfo.env`."""
    play_overrides: Mapping[str, Any] = field(default_factory=dict)
    """`env.` options that select a task as it is played, such as without noise: commands that use a
    policy add them. Spaces and the length of episodes must stay."""
    cannot_play: Callable[[TaskInfo], str | None] | None = None
    """Return why a task is played as it is trained although there is `play_overrides`; or None."""


@dataclass(frozen=True, kw_only=True)
class LauncherSpec(Spec):
    """Starts the ranks."""

    kind = "launcher"
    requires = ("launch",)

    frameworks: tuple[str, ...] = ()
    """The frameworks whose ranks it can start; empty for any."""
    starts_nodes: bool = False
    """Whether it is called once, and starts `rltrain` on other machines, as a scheduler does. Any
    other launcher is called on each node, and starts the ranks there."""
    unsupported: tuple[str, ...] = ()
    """Options for launchers that this one does not support: they are refused. "max_restarts" stands
    for restarts on several nodes."""


@dataclass(frozen=True, kw_only=True)
class ClusterSpec(Spec):
    """Finds what has started this process: torchrun, mpirun, a scheduler. It has no class."""

    kind = "cluster"

    factory: str = ""
    find: Callable[[Mapping[str, str]], StartedRank | StartedNode | None]
    """Given the environment variables, return this process's place, or None if the cluster has not
    started it as one of several. Raises `UsageError`, which shows the variables, where they are
    incomplete or contradict each other."""
    order: int
    """The first that finds a place is right: 0 for what only starts ranks, such as torchrun; 10 for
    MPI; 20 for schedulers that start tasks; 30 and more for those that count nodes."""
    variables: tuple[str, ...]
    """Patterns of the names of its variables, such as "SLURM_*", for `rltrain doctor`."""
    frameworks: tuple[str, ...] = ()
    """The frameworks whose ranks it starts; empty for any."""
    resolve: Callable[[str], str | None] | None = None
    """Given the name of a host that this machine cannot resolve, return its address, or None."""


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
    """Whether it renders the environments of rank 0, which the suite must support."""
    refuses: tuple[Refusal, ...] = ()
    """Runs in which it cannot work."""


@dataclass(frozen=True, kw_only=True)
class CommandSpec(Spec):
    """Adds a command, `rltrain NAME`. Its class is a `rltrain.types.Command`."""

    kind = "command"
    requires = ("add_arguments", "run")

    takes: Literal["rest", "options"] = "rest"
    """The words that it reads itself: the rest after `--`, or options such as `env.KEY=VALUE`."""

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z-]+", self.name):
            raise PluginError(f"The command {self.name!r}: use small letters and dashes only")


KINDS: dict[str, type[Spec]] = {spec.kind: spec for spec in Spec.__subclasses__()}
"""The kinds by name. `KINDS[kind].requires` is what each must implement."""


def load_object(path: str) -> Any:
    """Import and return the object that an import string "package.module:name" names.

    Raises:
        PluginError: the string is not written like this.
        Exception: whatever the import raises.
    """
    module, colon, name = path.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise PluginError(f"The import string {path!r} must be written package.module:Class.")
    return getattr(importlib.import_module(module), name)
