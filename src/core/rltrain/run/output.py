"""Rank 0's output: records for the writers, and files that say what the run is."""

from __future__ import annotations

import contextlib
import json
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.errors import RltrainError, in_a_line
from rltrain.files.disk import NotWritten, disk_errors
from rltrain.ranks.logs.rank_log import say
from rltrain.records import Record, RunStarted, Scalars, Warned
from rltrain.run.profile import PROFILE
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


class Output:
    """Writes. A disk that takes no files does not end the run."""

    def __init__(self, plugins: RunPlugins) -> None:
        self._plugins = plugins
        self._unwritten = Unwritten(self.warn)
        self._warnings: list[str] = []
        self._iteration = 0
        self._metrics: MetricsFile | None = None

    @property
    def exit_code(self) -> int:
        """0 if everything is written."""
        return IO_ERROR if self._unwritten else 0

    def begin(self, folder: RunFolder, config: RunConfig, world: World, seeds: SeedPlan) -> None:
        """Write what the run is, in its folder."""
        self._folder, self._config = folder, config
        self._manifest = manifest.manifest(config, world, seeds)
        self._describe()
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
            self._metrics.add(record)
            if self._metrics.is_due:
                with self._unwritten.attempt(METRICS, self._folder.path):
                    self._metrics.write()
        for name, error in self._plugins.call_each("rltrain_write", record=record).items():
            if error is None:
                self._unwritten.remove(records_of(name))
            elif not self._unwritten.is_of_writer(name, error):
                raise error

    def write_profile(self, profile: Mapping[str, Any] | None) -> None:
        """Write the times of all ranks, if there are some."""
        if profile is None:
            return
        text = json.dumps(profile, separators=(",", ":"))
        with self._unwritten.attempt(PROFILE, self._folder.path):
            path = self._folder.write_atomically(PROFILE, lambda path: path.write_text(text))
            say(f"profile: {path} opens at https://ui.perfetto.dev; `rltrain report` sums it up")

    def saving(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a checkpoint is saved, if the disk takes it."""
        self._describe()
        return self._unwritten.attempt("checkpoints", self._folder.path)

    def shut_down(self, **arguments: Any) -> list[BaseException]:
        """Let every plugin shut down; return their errors, but for what the disk did not take."""
        errors = []
        for name, error in self._plugins.call_each("rltrain_shutdown", **arguments).items():
            of_writer = name.startswith("writer")
            if error and not (of_writer and self._unwritten.is_of_writer(name, error)):
                errors.append(error)
        self._unwritten.tell_at_end()
        return errors

    def _describe(self) -> None:
        """Write what the run is, unless that is there: the folder may have been removed."""
        with self._unwritten.attempt("manifest.json and config.yaml", self._folder.path):
            if not self._folder.manifest.exists():
                manifest.write_config(self._folder, self._config)
                self._folder.write_manifest(self._manifest)


class Unwritten:
    """Remembers what has not been written since it last failed, and tells the user.

    It is true if there is something.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._reasons: dict[str, str] = {}
        self._mistaken: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._reasons)

    @contextlib.contextmanager
    def attempt(self, what: str, folder: Path) -> Iterator[None]:
        """Go on after the context, which writes `what`, if the disk takes no files in a folder."""
        try:
            with disk_errors(folder):
                yield
        except NotWritten as error:
            self.add(what, error)
        else:
            self.remove(what)

    def add(self, what: str, error: OSError) -> None:
        """Note that something was not written."""
        if what not in self._reasons:
            reason = self._reasons[what] = error.strerror or str(error)
            self._warn(f"cannot write {what} ({reason}): training goes on, and tries again")

    def remove(self, what: str) -> None:
        """Note that something was written; a mistake is not mended by that."""
        if (
            what not in map(records_of, self._mistaken)
            and self._reasons.pop(what, None) is not None
        ):
            self._warn(f"{what} can be written again")

    def is_of_writer(self, plugin: str, error: BaseException) -> bool:
        """Note an error by which a writer, or an observer, has not written its records.

        It may refuse a run, by an error that rltrain raises on purpose.
        """
        if isinstance(error, OSError):
            self.add(records_of(plugin), error)
            return True
        kind, _, name = plugin.partition(":")
        of_records = kind in ("writer", "observer") and not isinstance(error, RltrainError)
        if not of_records or not isinstance(error, Exception):
            return False
        if plugin not in self._mistaken:
            self._mistaken.add(plugin)
            traceback.print_exception(error)
            self._reasons[records_of(plugin)] = reason = in_a_line(error)
            self._warn(
                f"the {kind} {name} raises {reason}. Training goes on, without some of its "
                "records; the rank's log has its traceback."
            )
        return True

    def tell_at_end(self) -> None:
        """Tell the user what is missing."""
        for what, reason in self._reasons.items():
            say(f"not written: {what} ({reason})")


def records_of(plugin: str) -> str:
    """Return in words what a plugin writes."""
    return f"records ({plugin.replace(':', ' ')})"
