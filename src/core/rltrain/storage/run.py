"""A run folder: what it says of itself, and which of its checkpoints are meant."""

from __future__ import annotations

import functools
import math
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltrain.data import parse_json
from rltrain.errors import UsageError
from rltrain.files.reading import no_file, read_text, real
from rltrain.records import Scalars
from rltrain.storage.checkpoint import Checkpoint, DamagedCheckpoint
from rltrain.storage.checkpoints import by_return, saved_checkpoints
from rltrain.storage.manifest import read_manifest
from rltrain.storage.metrics_file import RunMetrics, read_metrics
from rltrain.terminal import note

STORY = "restarts.json"
"""In the run folder: the failures of a run with --max-restarts, in order."""

_LARGEST_STORY = 16 << 20
"""Bytes of the story of restarts that is read."""


class Run:
    """A run folder, as it was when it was read: the run may still train.

    `name` is what it is called here: the run folder, or that below the one of all runs. Links of
    checkpoints out of the folder are followed, and their code is run, only where they are trusted.
    """

    def __init__(
        self,
        path: Path,
        metrics: RunMetrics | None = None,
        manifest: Mapping[str, Any] | None = None,
        name: str = "",
        *,
        trusted: bool = False,
        warn: Callable[[str], None] = note,
    ) -> None:
        """Name the folder, what was read of it, and what is called with warnings."""
        self.path, self.name = path, name
        if metrics is not None:
            self.metrics = metrics
        if manifest is not None:
            self.manifest = manifest
        self._trusted, self._warn = trusted, warn

    @functools.cached_property
    def metrics(self) -> RunMetrics:
        """What it has recorded; `UsageError` if that is damaged."""
        return read_metrics(self.path)

    @functools.cached_property
    def manifest(self) -> Mapping[str, Any]:
        """Empty if the user has removed it."""
        return read_manifest(self.path) or {}

    @property
    def scalars(self) -> Sequence[Scalars]:
        """What was recorded after each iteration."""
        return self.metrics.scalars

    @property
    def config(self) -> Mapping[str, Any]:
        """The resolved run; empty if it is not known."""
        found: Mapping[str, Any] = self.manifest.get("config", {})
        return found

    @property
    def seconds(self) -> float:
        """How long it has trained."""
        return self.scalars[-1].seconds if self.scalars else 0.0

    @property
    def best_return(self) -> float | None:
        """The highest mean return that was recorded."""
        found = [each.episode_return for each in self.scalars if each.episode_return is not None]
        return max(found, default=None)

    @property
    def target_return(self) -> float | None:
        """The return at which it was to end; None if none was given."""
        found = self.config.get("target_return")
        return found if isinstance(found, float) and math.isfinite(found) else None

    @property
    def outcome(self) -> str:
        """How the run ended, in a word."""
        ended = self.metrics.ended
        return "still training, or killed" if ended is None else ended.outcome

    def restarts(self) -> list[str]:
        """Return the failures after which the ranks were started again, and the last one."""
        try:
            failures = parse_json(read_text(self.path / STORY, _LARGEST_STORY, self.path))
            return [
                f"failed after iteration {each['iteration']}: {each['error']}; {each['then']}"
                for each in failures
            ]
        except (OSError, ValueError, LookupError, TypeError):
            return []  # There were none, or the user has changed the file.

    def checkpoints(self) -> list[Checkpoint]:
        """Return its checkpoints that are still there, in the order of saving."""
        return list(self._present(saved_checkpoints(self.path, self._warn)))

    def checkpoint(self, which: str = "latest", named: str = "") -> Checkpoint:
        """Return one of its checkpoints, that is not damaged.

        Args:
            which: "latest", "best", or the iteration after which it was saved.
            named: what the user has typed for it, for messages.

        Raises:
            UsageError: the run has not saved it.
        """
        if found := self.find(which):
            return found
        entries = saved_checkpoints(self.path, self._warn)
        saved = textwrap.shorten(", ".join(str(each["iteration"]) for each in entries), 200)
        there = (
            f"It has those of the iterations {saved}."
            if entries
            else f"It has saved none yet. To repeat it: --config {self.path / 'config.yaml'}."
        )
        named = named or f"--checkpoint {which}"
        raise UsageError(f"{named}: the run {self.path} has no such checkpoint. {there}")

    def find(self, which: str = "latest") -> Checkpoint | None:
        """Return what `checkpoint` does, or None."""
        entries = saved_checkpoints(self.path, self._warn)
        if which == "best":
            entries = by_return(entries)
        elif which != "latest":
            entries = [each for each in entries if str(each["iteration"]) == which]
        for checkpoint in self._present(entries[::-1]):
            try:
                checkpoint.check()
                return checkpoint
            except DamagedCheckpoint as error:
                self._warn(f"passing over {checkpoint}: {error.what}.")
            except UsageError:
                return checkpoint  # It names code: that is said where it is loaded.
        return None

    def _present(self, entries: Sequence[Mapping[str, Any]]) -> Iterator[Checkpoint]:
        """Yield those that are there, each once."""
        folder = self.path / "checkpoints"
        iterations = {entry["name"]: entry["iteration"] for entry in reversed(entries)}
        for name in dict.fromkeys(entry["name"] for entry in entries):
            path = folder / name
            if not self._trusted and not real(path).is_relative_to(real(self.path)):
                self._warn(
                    f"passing over {name!a}: it leads out of {folder}. If it is yours, or you "
                    "trust who wrote it, add --trust."
                )
            elif os.path.isfile(path):
                yield Checkpoint(path, self._trusted, iterations[name])
            else:
                self._warn(f"passing over {path}: it {no_file(path, 'was renamed or removed')}.")
