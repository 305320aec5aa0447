"""Starting all ranks again after a failure, in the same run folder, from its newest checkpoint."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rltrain.config import Placement, RunConfig
from rltrain.errors import RankFailed
from rltrain.ranks.folders import private_folder
from rltrain.ranks.notes import Notes
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.run import STORY, Run
from rltrain.storage.run_folder import RunFolder
from rltrain.types import TrainResult

_OUTSIDE = tuple(
    f"was killed {how}" for how in ("by SIGKILL", "by SIGTERM", "by SIGHUP", "from outside")
)
"""How the error ends of a rank that has ended by a signal which it does not send itself."""

_LONGEST_PAUSE = 60.0
"""Seconds between two attempts, at most."""

Attempt = Callable[[RunConfig, Notes], TrainResult]


@dataclass(frozen=True)
class _Failure:
    """The end of one attempt."""

    time: str
    rank: int | None
    error: str
    """What failed, in a line."""
    iteration: int
    """Iterations done, as far as known."""
    log: str | None
    """The log of the rank, in the run folder."""
    then: str = ""
    """How ranks went on, or why they did not."""

    @property
    def is_outside(self) -> bool:
        """Whether somebody, or the system, has killed a rank: that is no failure of the run."""
        return self.error.endswith(_OUTSIDE)

    def came_back(self, before: _Failure) -> bool:
        """Whether an attempt failed as the one before, by itself, and got no further."""
        same = self.error == before.error and not self.is_outside
        return same and self.iteration <= before.iteration


def restarts_here(config: Placement) -> bool:
    """Whether ranks are started again by this process; several nodes need a launcher that does."""
    return config.max_restarts > 0 and config.nnodes == 1


def with_restarts(config: RunConfig, iterations: int | None, attempt: Attempt) -> TrainResult:
    """Start all ranks, and after a failure again, as often as --max-restarts says.

    An attempt starts the ranks of a config, which leave notes, and waits for them.
    """
    with private_folder() as folder:
        story = _Story(config, iterations, Notes(folder))
        while True:
            try:
                return attempt(config, story.notes)
            except RankFailed as error:
                config = story.after(error, config)


class _Story:
    """What has happened to a run, and how it goes on."""

    def __init__(self, config: RunConfig, iterations: int | None, notes: Notes) -> None:
        self.notes = notes
        self._restarts = config.max_restarts
        self._iterations = iterations
        self._failures: list[_Failure] = []

    def after(self, error: RankFailed, config: RunConfig) -> RunConfig:
        """Return how ranks are started again."""
        noted = self.notes.run_dir() or config.run_dir
        if noted and not Path(noted).is_dir():  # There is nothing to go on from.
            error.args = (f"Ranks are not started again: {noted} is gone. {error}",)
            raise error from None
        run = Run(Path(noted), trusted=True, warn=_say) if noted else None  # It is our own.
        if run is not None:
            RunFolder(run.path).remove_partial()
        found = run.find() if run else None
        done = (found.iteration if found else None) or 0
        failure = _Failure(
            time=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            rank=error.rank,
            error=error.headline.rstrip("."),
            iteration=max(done, error.iteration or 0),
            log=None if error.rank is None else f"logs/rank_{error.rank}.log",
        )
        end = self._reason_to_end(error, failure, done)
        then = end or f"going on from {_resumed_from(config, run, found)}"
        self._failures.append(dataclasses.replace(failure, then=then))
        if run is not None:
            _write(RunFolder(run.path), self._failures)
        if end:
            raise error
        what = f"{failure.error[0].lower()}{failure.error[1:]} after iteration {failure.iteration}"
        pause = self._pause()
        wait = f", in {pause:.0f} s" if pause else ""
        _say(f"restart {len(self._failures)} of {self._restarts}{wait}: {what}; {then}")
        time.sleep(pause)
        return _again(config, run, found)

    def _pause(self) -> float:
        """Return the seconds to wait: what has killed ranks again and again may still be there."""
        last = self._failures[-1]
        in_a_row = 0
        for each in reversed(self._failures):
            if not each.is_outside or each.iteration < last.iteration:
                break
            in_a_row += 1
        return 0.0 if in_a_row < 2 else min(_LONGEST_PAUSE, 2.0 ** (in_a_row - 2))

    def _reason_to_end(self, error: RankFailed, failure: _Failure, done: int) -> str:
        """Return why ranks are not started again; "" if they are."""
        if not error.may_restart:
            return "not started again: this failure, or a signal, ends the run"
        if self._iterations is not None and done >= self._iterations:
            return "not started again: the last checkpoint is that of the last iteration"
        if self._failures and failure.came_back(self._failures[-1]):
            back = f"It came back after iteration {failure.iteration}: restarting does not help."
            error.args = (f"{back} {error}",)
            return back
        return "" if len(self._failures) < self._restarts else "no restart is left"


def _resumed_from(config: RunConfig, run: Run | None, found: Checkpoint | None) -> str:
    """Describe from where ranks go on."""
    if found is not None and run is not None:
        return f"{found.path.relative_to(run.path)} (iteration {found.iteration or 0})"
    return config.checkpoint or "the beginning"


def _again(config: RunConfig, run: Run | None, found: Checkpoint | None) -> RunConfig:
    """Return the config of the ranks that start again."""
    if run is None:
        return config  # They failed before they had a run folder.
    return dataclasses.replace(
        config,
        run_dir=str(run.path),
        checkpoint=str(found) if found else config.checkpoint,
        # It was looked for when the run began.
        auto_resume=False,
        # A seed that was drawn stays.
        seed=run.config.get("seed", config.seed),
    )


def _write(run: RunFolder, failures: list[_Failure]) -> None:
    text = json.dumps([dataclasses.asdict(failure) for failure in failures], indent=1) + "\n"
    try:
        run.write_atomically(STORY, lambda path: path.write_text(text))
    except OSError as error:
        _say(f"{run.path / STORY}: cannot be written: {error.strerror or error}.")


def _say(text: str) -> None:
    print(text, flush=True)
