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
from rltrain.ranks.folders import Notes, private_folder
from rltrain.storage.run import STORY, Run
from rltrain.storage.run_folder import RunFolder
from rltrain.types import TrainResult

_OUTSIDE = tuple(
    f"was killed {how}" for how in ("by SIGKILL", "by SIGTERM", "by SIGHUP", "from outside")
)
"""How the error ends of a rank that has ended by a signal which it does not send itself."""

_LONGEST_PAUSE = 60.0
"""Seconds between two attempts, at most: what kills ranks again and again may still be there."""


@dataclass(frozen=True)
class _Failure:
    """The end of one attempt, and what was done: a line of the file `STORY`."""

    time: str
    rank: int | None
    error: str
    iteration: int
    """Iterations done, as far as known."""
    log: str | None
    then: str

    @property
    def is_outside(self) -> bool:
        """Whether a user, or the system, has killed a rank: that is no failure of the run."""
        return self.error.endswith(_OUTSIDE)


def restarts_here(config: Placement) -> bool:
    """Whether ranks are started again by this process; several nodes need a launcher that does."""
    return config.max_restarts > 0 and config.nnodes == 1


def with_restarts(
    config: RunConfig, iterations: int | None, attempt: Callable[[RunConfig, Notes], TrainResult]
) -> TrainResult:
    """Start all ranks, and after a failure again, as often as --max-restarts says.

    An attempt starts the ranks of a config, which leave notes, and waits for them.
    """
    failures: list[_Failure] = []
    pause = 0.0
    # What the folder holds may be removed while the run trains; an open file stays.
    with private_folder() as folder, (folder / "run_dir").open("a+") as run_dir:
        while True:
            try:
                return attempt(config, Notes(folder))
            except RankFailed as error:
                run_dir.seek(0)
                again, end = _handle(error, config, run_dir.read(), iterations, failures)
                if end:
                    raise
            last, before = failures[-1], failures[-2] if len(failures) > 1 else None
            stuck = last.is_outside and before is not None and last.iteration <= before.iteration
            pause = min(_LONGEST_PAUSE, 2 * pause or 1.0) if stuck else 0.0
            wait = f", in {pause:.0f} s" if pause else ""
            what = f"{last.error[0].lower()}{last.error[1:]} after iteration {last.iteration}"
            _say(f"restart {len(failures)} of {config.max_restarts}{wait}: {what}; {last.then}")
            time.sleep(pause)
            config = again


def _handle(
    error: RankFailed,
    config: RunConfig,
    run_dir: str,
    iterations: int | None,
    failures: list[_Failure],
) -> tuple[RunConfig, str]:
    """Add a failure; return how ranks start again, and why they do not, if so."""
    path = run_dir or config.run_dir
    run = Run(Path(path), trusted=True, warn=_say) if path else None  # It is our own.
    if run is not None:
        RunFolder(run.path).remove_partial()
    found = run.find() if run is not None else None
    done = (found.iteration if found is not None else None) or 0
    last = failures[-1] if failures else None
    failure = _Failure(
        time=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        rank=error.rank,
        error=error.headline.rstrip("."),
        iteration=max(done, error.iteration or 0),
        log=None if error.rank is None else f"logs/rank_{error.rank}.log",
        then=f"continuing from {config.checkpoint or 'the beginning'}",
    )
    if found is not None and run is not None:
        name = f"{found.path.relative_to(run.path)} (iteration {done})"
        failure = dataclasses.replace(failure, then=f"continuing from {name}")
    came_back = last is not None and failure.error == last.error and not failure.is_outside
    end = ""
    if not error.may_restart:
        end = "not started again: this failure, or a signal, ends the run"
    elif iterations is not None and done >= iterations:
        end = "not started again: the last checkpoint is that of the last iteration"
    elif came_back and last is not None and failure.iteration <= last.iteration:
        end = f"It came back after iteration {failure.iteration}: restarting does not help."
        error.args = (f"{end} {error}",)
    elif len(failures) >= config.max_restarts:
        end = "no restart is left"
    failures.append(dataclasses.replace(failure, then=end or failure.then))
    if run is None:
        return config, end  # They failed before they had a run folder.
    text = json.dumps([dataclasses.asdict(each) for each in failures], indent=1) + "\n"
    try:
        RunFolder(run.path).write_atomically(STORY, lambda path: path.write_text(text))
    except OSError as cause:
        _say(f"{run.path / STORY}: cannot be written: {cause.strerror or cause}.")
    again = dataclasses.replace(
        config,
        run_dir=str(run.path),
        checkpoint=str(found) if found is not None else config.checkpoint,
        auto_resume=False,  # It was looked for when the run began.
        seed=run.config.get("seed", config.seed),  # One that was sampled stays.
    )
    return again, end


def _say(text: str) -> None:
    print(text, flush=True)
