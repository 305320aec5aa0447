"""The conformance kit for writers, as tests to subclass."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rltrain.launch import private_folder
from rltrain.plugins import discover
from rltrain.records import CheckpointSaved, Media, RunEnded, RunStarted, Scalars, Warned
from rltrain.specs import WriterSpec
from rltrain.testing import RankSession, RunPlugins, make_config
from rltrain.types import World
from rltrain_devkit.kits.rules import Kit


@dataclass(frozen=True)
class _OfALaterVersion:
    """A record that no writer knows yet."""

    iteration: int


class WriterConformance(Kit):
    """What every writer must do with the records of a made-up run.

    Example:
        ```python
        from rltrain_devkit import WriterConformance

        class TestMyWriter(WriterConformance):
            writer = "my_writer"
        ```
    """

    writer: str
    """The name under which the plugin declares it."""
    options: Mapping[str, Any] = {}
    """Options of the writer, such as one that keeps it off the network."""

    def test_a_whole_run_is_taken(self) -> None:
        """Every record of a run is taken, and the writer shuts down."""
        with self._run() as (write, folder):
            write(_started(folder), *_of_training(folder), _ended())

    def test_an_unknown_record_is_passed_over(self) -> None:
        """A record that the writer does not know, of a later rltrain, is passed over."""
        with self._run() as (write, folder):
            write(_started(folder), _OfALaterVersion(1), _ended())

    def test_strange_numbers_are_taken(self) -> None:
        """Metrics that are NaN, infinite or missing are taken."""
        values = {"a": math.nan, "b/c (max)": math.inf}
        with self._run() as (write, folder):
            write(_started(folder), Scalars(1, values), Scalars(2, {}), _ended())

    def test_a_run_that_never_began_is_taken(self) -> None:
        """A run that ends before it has begun is taken: ranks may fail before it has a folder."""
        with self._run() as (write, _):
            write(_ended("ValueError: no such file"))
        with self._run():
            pass

    def test_files_are_below_the_run_folder(self) -> None:
        """Files are written below the run folder only."""
        with self._run() as (write, folder):
            write(_started(folder), Scalars(1, {"loss": 0.5}), _ended())
            found = sorted(path.name for path in Path.cwd().iterdir())
        assert not found, f"it wrote to the working folder: {', '.join(found)}"

    @contextlib.contextmanager
    def _run(self) -> Iterator[Any]:
        """Yield what gives the writer records, and a run folder; then shut the writer down."""
        with private_folder() as scratch:
            folder, work = scratch / "run", scratch / "work"
            folder.mkdir()
            work.mkdir()
            plugins = RunPlugins()
            plugins.choose(discover().get(WriterSpec, self.writer), {self.writer: self.options})
            session = RankSession(make_config(writers=(self.writer,)), World(), plugins)

            def write(*records: object) -> None:
                for record in records:
                    plugins.hook.rltrain_write(record=record)

            with contextlib.chdir(work):
                yield write, folder
                plugins.hook.rltrain_shutdown(session=session, error=None)


def _started(folder: Path) -> RunStarted:
    return RunStarted(
        run_dir=str(folder),
        library="rl_games",
        algorithm="ppo",
        task="rltrain/CartPoleContinuous-v1",
        world=World(0, 0, 0, 2, 2),
        num_envs=8,
        seed=42,
    )


def _of_training(folder: Path) -> list[Any]:
    for name in ("1.pt", "clip.mp4"):
        (folder / name).write_bytes(b"made up")
    first = Scalars(1, {"loss/policy": 0.5, "time/update": 0.1}, iterations=2, frames=64)
    return [
        replace(first, seconds=1.5, fps=(40.0, 41.0), episode_return=3.0),
        CheckpointSaved(str(folder / "1.pt"), 1),
        Media(str(folder / "clip.mp4"), "videos/clip", 1),
        Warned("rank 1 is slow", 1),
        Scalars(2, {"loss/policy": 0.4, "of a later iteration": 1.0}, iterations=2),
    ]


def _ended(error: str | None = None) -> RunEnded:
    return RunEnded(iterations=2, frames=128, seconds=3.0, episode_return=3.0, error=error)
