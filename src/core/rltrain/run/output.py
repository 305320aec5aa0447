"""Rank 0's output: records for the writers, and files that say what the run is."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rltrain.errors import RltrainError, UsageError, in_a_line
from rltrain.files.disk import NotWritten
from rltrain.ranks.logs import say
from rltrain.records import Record, RunStarted, Scalars, Warned
from rltrain.storage import manifest
from rltrain.storage.metrics_file import METRICS, MetricsFile

if TYPE_CHECKING:
    from rltrain.config import RunConfig
    from rltrain.plugins.manager import RunPlugins
    from rltrain.seeding import SeedPlan
    from rltrain.storage.run_folder import RunFolder
    from rltrain.types import World

IO_ERROR = 74
"""The exit status of a run that has not written everything: EX_IOERR in sysexits.h."""


class NotSaved(UsageError):
    """The disk does not take what a run cannot go on without."""

    exit_code = IO_ERROR


@contextlib.contextmanager
def on_disk(what: str) -> Iterator[None]:
    """End the run by `NotSaved` if the disk does not take what is written in the context."""
    try:
        yield
    except NotWritten as error:
        raise NotSaved(
            f"{what} cannot be written ({error.strerror}). The run ends; what it saved before is "
            "whole. Make room, or name another --log-root, and resume it."
        ) from error


class Output:
    """Writes. A writer that fails is named once, and does not end the run."""

    def __init__(self, plugins: RunPlugins) -> None:
        self._plugins = plugins
        self._warnings: list[str] = []
        self._iteration = 0
        self._metrics: MetricsFile | None = None
        self._missing: dict[str, str] = {}

    @property
    def exit_code(self) -> int:
        """0 if everything is written."""
        return IO_ERROR if self._missing else 0

    def begin(self, folder: RunFolder, config: RunConfig, world: World, seeds: SeedPlan) -> None:
        """Write what the run is, in its folder."""
        self._folder = folder
        if not folder.manifest.exists():
            with on_disk(str(folder.manifest)):
                manifest.write_config(folder, config)
                folder.write_manifest(manifest.manifest(config, world, seeds))
        self._metrics = MetricsFile(folder.path)

    def warn(self, text: str) -> None:
        """Tell the user something now, and the writers with the next record."""
        say(text)
        self._warnings.append(text)

    def write(self, record: Record) -> None:
        """Give a record to the metrics file and the writers."""
        if isinstance(record, Scalars):
            self._iteration = record.iteration
        warnings, self._warnings = self._warnings, []
        records: list[Record] = [Warned(text, self._iteration) for text in warnings]
        # RunStarted comes first, RunEnded last.
        records.insert(0 if isinstance(record, RunStarted) else len(records), record)
        for each in records:
            self._write(each)

    def _write(self, record: Record) -> None:
        if self._metrics is not None:
            try:
                self._metrics.write(record)
            except OSError as error:
                self._metrics = None
                self._miss(METRICS, f"{METRICS} cannot be written:", error)
        for name, raised in self._plugins.call_each("rltrain_write", record=record).items():
            if raised is not None and not self._is_of_writer(name, raised):
                raise raised

    def shut_down(self, **arguments: Any) -> list[BaseException]:
        """Let every plugin shut down; return their errors, but for those of writers."""
        errors = []
        for name, error in self._plugins.call_each("rltrain_shutdown", **arguments).items():
            if error and not (name.startswith("writer") and self._is_of_writer(name, error)):
                errors.append(error)
        for what, reason in self._missing.items():
            say(f"not written: {what} ({reason})")
        return errors

    def _is_of_writer(self, plugin: str, error: BaseException) -> bool:
        """Name a writer, or an observer, that fails; an error of rltrain refuses the run."""
        kind, _, name = plugin.partition(":")
        of_records = kind in ("writer", "observer") and not isinstance(error, RltrainError)
        if of_records and isinstance(error, Exception):
            self._miss(f"records ({kind} {name})", f"the {kind} {name} raises", error)
            return True
        return False

    def _miss(self, what: str, fault: str, error: Exception) -> None:
        """Note that something was not written; tell the user so the first time."""
        if what not in self._missing:
            traceback.print_exception(error)
            self._missing[what] = reason = in_a_line(error)
            self.warn(
                f"{fault} {reason}. Training goes on, without some of its records; the rank's log "
                "has the traceback."
            )
