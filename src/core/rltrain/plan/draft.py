"""A plan, and the draft from which its steps make it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rltrain.config import Placement, RunConfig
from rltrain.options.run import RunOptions
from rltrain.plugins.registry import Registry
from rltrain.specs import LauncherSpec, LibrarySpec, SuiteSpec
from rltrain.storage.checkpoint import Checkpoint
from rltrain.types import Iteration, TaskInfo, World


def _later() -> Any:
    """Declare what a step finds out: no step before it reads it."""
    return field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Plan:
    """A run that can start."""

    config: RunConfig
    """Every choice made; `agent` holds all of the library's options."""
    task: TaskInfo
    world: World | None
    """The place of this process if it is a rank; None if the plan will start ranks."""
    registry: Registry = field(repr=False, compare=False)
    """The installed plugins."""
    iteration: Iteration | None = None
    """The size and number of iterations; None if the library does not declare them."""
    library_from: str = ""
    """Whose choice the library was, if not the user's."""
    options_from: str = ""
    """Describes the source of the library's options."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What the user asked for."""
    checkpoint: Checkpoint | None = field(default=None, repr=False, compare=False)
    """What the run starts from, as far as it has been read."""

    @property
    def starts_nodes(self) -> bool:
        """Whether its launcher starts `rltrain` on other machines."""
        name = self.config.launcher
        return name is not None and self.registry.get(LauncherSpec, name).starts_nodes


@dataclass(frozen=True, kw_only=True)
class Draft(Plan):
    """A plan that is being made. Each step returns it with what it has found out."""

    environ: Mapping[str, str]
    gpus: int | None
    """For a run on another machine, how many GPUs that machine shows."""
    trains: bool
    """Whether anything is trained."""
    notes: tuple[str, ...] = ()
    """Lines for the user."""

    config: RunConfig = _later()
    task: TaskInfo = _later()
    world: World | None = None
    registry: Registry = _later()
    requested: RunOptions = _later()
    """The user's options, and what follows from them and from files."""
    placement: Placement = _later()
    suite: SuiteSpec = _later()
    library: LibrarySpec = _later()
    algorithm: str = _later()
    agent: dict[str, Any] = _later()
    """The library's options, with the overrides."""
    written_for: int = _later()
    """The number of environments that they were written for."""

    def with_(self, *, notes: Iterable[str] = (), **found: Any) -> Draft:
        """Return the draft with what a step has found out, and says to the user."""
        return dataclasses.replace(self, notes=(*self.notes, *notes), **found)

    def finished(self) -> Plan:
        """Return the plan."""
        return Plan(**{each.name: getattr(self, each.name) for each in dataclasses.fields(Plan)})
