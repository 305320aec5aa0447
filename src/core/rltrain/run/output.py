"""Rank 0's output: records for the writers, and files that say what the run is."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rltrain.records import Record, RunStarted, Scalars, Warned
from rltrain.run.unwritten import IO_ERROR, Unwritten, records_of
from rltrain.storage import manifest
from rltrain.storage.metrics_file import METRICS, MetricsFile
from rltrain.watch.profile import PROFILE
from rltrain_ranks.logs.rank_log import say

if TYPE_CHECKING:
    from rltrain.config import RunConfig
    from rltrain.plugins.manager import RunPlugins
    from rltrain.seeding import SeedPlan
    from rltrain.storage.run_folder import RunFolder
    from rltrain.types import World

__all__ = ["Output"]


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
        """Let every plugin shut down; return their errors, but for what the disk did not take.

        Args:
            arguments: those of the hook `rltrain_shutdown`.
        """
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
