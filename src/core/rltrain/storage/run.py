"""A run folder: what it says of itself, and which of its checkpoints are meant."""

from __future__ import annotations

import functools
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.files.bounds import parse_json
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
        """Name the folder, what has been read of it, and who is told what is passed over."""
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
        found: Any = self.config.get("target_return")
        usable = type(found) in (int, float) and abs(found) <= sys.float_info.max
        return float(found) if usable else None

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
        entries = saved_checkpoints(self.path, self._warn)
        found = self._last_sound(_chosen(entries, which))
        if found is None:
            saved = ", ".join(str(entry["iteration"]) for entry in entries)
            saved = textwrap.shorten(saved, 200, placeholder=" ...")
            there = f"It has those of the iterations {saved}."
            if not saved:
                there = (
                    f"It has saved none yet. To repeat it: --config {self.path / 'config.yaml'}."
                )
            named = named or f"--checkpoint {which}"
            raise UsageError(f"{named}: the run {self.path} has no such checkpoint. {there}")
        return found

    def find(self, which: str = "latest") -> Checkpoint | None:
        """Return what `checkpoint` does, or None."""
        return self._last_sound(_chosen(saved_checkpoints(self.path, self._warn), which))

    def _last_sound(self, entries: Sequence[Mapping[str, Any]]) -> Checkpoint | None:
        """Return the last of these checkpoints that is there and not damaged."""
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
        """Yield those that are there, each once. What is missing before them is told once."""
        folder = self.path / "checkpoints"
        of_name = {str(entry["name"]): entry["iteration"] for entry in reversed(entries)}
        names = list(dict.fromkeys(str(entry["name"]) for entry in entries))
        there = set(os.listdir(folder)) if names and folder.is_dir() else set()
        gone = next((index for index, name in enumerate(names) if name in there), len(names))
        if gone:
            more = f", as were {gone - 1:,} more" if gone > 1 else ""
            self._warn(f"passing over {folder / names[0]}: it was renamed or removed{more}.")
        for path in (folder / name for name in names if name in there):
            if not self._trusted and not real(path).is_relative_to(real(self.path)):
                self._warn(
                    f"passing over {path.name!a}: it leads out of {folder}. If it is yours, or you "
                    "trust who wrote it, add --trust."
                )
            elif path.is_file():
                yield Checkpoint(path, self._trusted, of_name[path.name])
            else:
                self._warn(f"passing over {path}: it {no_file(path)}.")


def _chosen(entries: list[dict[str, Any]], which: str) -> list[dict[str, Any]]:
    """Return those of these checkpoints that a word means, the one before all others last."""
    if which == "best":
        return by_return(entries)
    return [each for each in entries if which in ("latest", str(each["iteration"]))]
