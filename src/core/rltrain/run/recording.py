"""What a run records: merged over ranks and checked on each, then written by rank 0."""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rltrain.errors import RltrainError, UsageError, in_a_line
from rltrain.files.disk import NotWritten
from rltrain.metrics.divergence import Trained, check_divergence
from rltrain.metrics.numbers import NonFiniteCheck
from rltrain.metrics.progress import Progress
from rltrain.metrics.scalars import check_number
from rltrain.ranks.logs import say
from rltrain.ranks.pulse import PulseWriter
from rltrain.ranks.signals import Requests
from rltrain.records import Record, RunStarted, Scalars, Warned
from rltrain.storage import manifest
from rltrain.storage.metrics_file import METRICS, MetricsFile

if TYPE_CHECKING:
    from rltrain.config import RunConfig
    from rltrain.plugins.manager import RunPlugins
    from rltrain.seeding import SeedPlan
    from rltrain.storage.run_folder import RunFolder
    from rltrain.types import Arrays, Fingerprints, ProcessGroup, World

IO_ERROR = 74
"""The exit status of a run that has not written everything: EX_IOERR in sysexits.h."""


class NotSaved(UsageError):
    """The disk does not take what a run cannot continue without."""

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


class Recorder:
    """Merges the metrics of an iteration over ranks, and checks what must be equal or finite."""

    def __init__(
        self, config: RunConfig, is_root: bool, arrays: Arrays | None, pulse: PulseWriter
    ) -> None:
        self._config, self._pulse = config, pulse
        self.progress = Progress()
        self.numbers = NonFiniteCheck(config.on_nonfinite, arrays)
        self.trained = Trained(config.library)
        self.requests = Requests(config.checkpoint_interval, is_root)
        self.watched: dict[str, Fingerprints] = {}
        self.solved = self.should_stop = self.should_save = False
        self._added: dict[str, tuple[Any, int]] = {}

    def add_metric(self, name: str, value: Any) -> None:
        """Add a number to the next record."""
        check_number(name, value)
        total, count = self._added.get(name, (0.0, 0))
        self._added[name] = total + value, count + 1

    def merge(self, record: Scalars, group: ProcessGroup) -> tuple[Scalars, list[str]]:
        """Return an iteration's record, merged over ranks, and warnings. Collective."""
        first = self.trained.check(group.world_size, bool(self.watched))
        record = dataclasses.replace(record, values={**record.values, **self._added})
        self._added = {}
        progress, at = self.progress, record.iteration
        record = progress.advance(record, self.requests.votes(at))
        self._pulse.done(at)
        warning, counts = self.numbers.react(group, progress.nonfinite, at)
        record = dataclasses.replace(record, values={**record.values, **counts})
        stop, self.should_save = self.requests.count(progress.votes)
        self.solved |= progress.window.reaches(self._config.target_return)
        self.should_stop = self.solved or (stop and at != record.iterations)
        if (every := self._config.check_interval) and (first or at % every == 0):
            check_divergence(group, self.watched, at)
        return record, [*filter(None, [warning, *progress.slow])]

    def finish(self, group: ProcessGroup) -> None:
        """Check once more, after the last iteration. Collective."""
        self.trained.check(group.world_size, bool(self.watched))
        self.progress.finish()
        check_divergence(group, self.watched, self.progress.iteration)


class Output:
    """Rank 0's writers and files. A writer that fails is named once, and does not end the run."""

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
        if not folder.manifest.exists():
            with on_disk(str(folder.manifest)):
                manifest.write_config(folder, config)
                folder.write_manifest(manifest.manifest(config, world, seeds))
        self._metrics = MetricsFile(folder.path)

    def warn(self, text: str) -> None:
        """Show the user something now, and give it to the writers with the next record."""
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
        """Note that something was not written; warn the user the first time."""
        if what not in self._missing:
            traceback.print_exception(error)
            self._missing[what] = reason = in_a_line(error)
            self.warn(
                f"{fault} {reason}. Training continues, without some of its records; the rank's "
                "log has the traceback."
            )
