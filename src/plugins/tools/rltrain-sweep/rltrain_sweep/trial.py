"""The trials of a search: one run each, or one for each seed."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.trial import TrialState

from rltrain.options import flag
from rltrain.records import Scalars
from rltrain.runs import Run
from rltrain_sweep.job import STOPPED, Ended, Job, Slot
from rltrain_sweep.space import shown, values_of
from rltrain_sweep.study import Found, Study


class Search:
    """The work of a study: trials, whose results Optuna hears."""

    head = f"{'trial':>5}  {'state':<8}  {'value':>10}  {'best':>10}  {'left':>8}  options"

    def __init__(self, study: Study) -> None:
        """Keep the study."""
        self.study, self._began, self._over = study, time.monotonic(), 0

    def take(self, slot: Slot) -> Job | None:
        """Take a trial; None if none is left."""
        taken = self.study.take()
        return None if taken is None else Trial(self.study, *taken, slot)

    def done(self) -> bool:
        """Return True: this worker does not wait for the trials of others."""
        return True

    def row(self, job: Job, ended: Ended) -> str:
        """Tell Optuna how a trial has ended, and return its row; one that was stopped has not."""
        states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
        if ended.state != "stopped":
            value = ended.value if ended.state == "complete" else None
            state = states.get(ended.state, TrialState.FAIL)
            with contextlib.suppress(RuntimeError):  # A grid at its end would stop `optimize`.
                self.study.optuna.tell(job.found.number, value, state)
        found = self.study.found()
        best, left = best_of(found, self.study.settings.minimize), self._left(found)
        return (
            f"{job.found.number:>5}  {ended.state:<8}  {short(ended.value):>10}  "
            f"{short(best.value if best else None):>10}  {left:>8}  {shown(job.found.values)}"
        )

    def _left(self, found: Sequence[Found]) -> str:
        """Return about how long the other trials take, as 1:05:00."""
        over = sum(each.state in ("complete", "pruned", "failed") for each in found)
        self._over += 1
        one = (time.monotonic() - self._began) / self._over
        minutes, seconds = divmod(round(one * max(self.study.trials - over, 0)), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


class Trial(Job):
    """A trial of this worker."""

    def __init__(self, study: Study, trial: optuna.Trial, lock: int, slot: Slot) -> None:
        """Start its first run, or that which its last worker has not ended."""
        super().__init__(study, Found(trial.number, values_of(trial.params)), lock, slot)
        self._trial, self._several = trial, study.settings.seeds > 1
        before = study.optuna.get_trials(deepcopy=False)[trial.number].intermediate_values
        done = list(before.values())[: study.settings.seeds - 1]  # The last is not over.
        self._values = done if self._several else []
        self._next = max(before, default=-1) + 1
        self._start()

    @property
    def _name(self) -> str:
        return self.found.name + (f"-seed-{self._seed}" if self._several else "")

    @property
    def _seed(self) -> int:
        return self.study.seed + len(self._values)

    def _start(self) -> None:
        self._seen = 0
        self.start_run(self._name, **({"seed": self._seed} if self._several else {}))

    def watch(self) -> None:
        """End the run at the end of its budget, or where it is worse than others were."""
        runs = self.study.runs_of(self._name)
        size = (runs[-1].path / "metrics.jsonl").stat().st_size if runs else 0
        if size == self._seen or not (scalars := runs[-1].scalars):
            return
        self._seen, settings, last = size, self.study.settings, scalars[-1]
        share = last.iteration / last.iterations if last.iterations else 0.0
        if settings.frames is not None:
            share = last.frames / settings.frames
        elif settings.time is not None:
            share = sum(run.seconds for run in runs) / settings.time
        if share >= 1.0 and (settings.frames or settings.time):
            self.stop("ended")
        elif not self._several and (value := value_of(last, settings.objective)) is not None:
            while self._next < math.floor(share * settings.checks) and not self.asked:
                self._trial.report(value, self._next)
                self._next += 1
                if self._trial.should_prune():
                    self.stop("pruned")

    def after(self, status: int) -> Ended | None:
        """Return how the trial has ended; None if it is evaluated, or the next seed begins."""
        name, asked, settings = self._name, self.asked, self.study.settings
        runs = self.study.runs_of(name)
        if status not in (0, *STOPPED) or not runs:
            return self.failed(name, status)
        if asked == "pruned":
            return Ended("pruned", self._last(runs))
        evaluates = settings.objective.startswith("evaluate")
        if evaluates and asked != "evaluate":
            where: list[str] = []
            for option in ("device", "gpu_ids"):
                if value := self.options.get(option):
                    values = value if isinstance(value, list) else [value]
                    where += [flag(option), *map(str, values)]
            self.start(name, "evaluate", str(runs[-1].path), "--trust", *where)
            self.asked = "evaluate"
            return None
        value = evaluated(runs[-1], settings.objective) if evaluates else self._last(runs)
        if value is None or not math.isfinite(value):
            return Ended("failed", reason=f"{runs[-1].path} has no {settings.objective}")
        self._values.append(value)
        if self._several:
            self._trial.report(value, len(self._values) - 1)
            if len(self._values) < settings.seeds:
                if self._trial.should_prune():
                    return Ended("pruned", value)
                self._start()
                return None
        return Ended("complete", interquartile_mean(self._values))

    def _last(self, runs: Sequence[Run]) -> float | None:
        """Return the objective at the end of the budget."""
        most = self.study.settings.frames or math.inf
        every = [each for run in runs for each in run.scalars]
        within = [each for each in every if each.frames <= most] or every[:1]
        return value_of(within[-1], self.study.settings.objective) if within else None


def value_of(record: Scalars, objective: str) -> float | None:
    """Return a metric of an iteration: the return, a field of `Scalars`, or a value's name."""
    name = "episode_return" if objective == "return" else objective
    found: Any = record.values.get(name, getattr(record, name, None))
    return float(found) if isinstance(found, (int, float)) else None


def evaluated(run: Run, objective: str) -> float | None:
    """Return what `rltrain evaluate` has kept of a run: `evaluate` is the mean, or its `iqm`."""
    name = "iqm" if objective == "evaluate.iqm" else "returns"
    try:
        lines = (run.path / "evaluations.jsonl").read_text().splitlines()
        return float(json.loads(lines[-1])[name])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half, as scipy's `trim_mean(values, 0.25)`."""
    cut = len(values) // 4
    middle = sorted(values)[cut : len(values) - cut]
    return sum(middle) / len(middle)


def best_of(found: Sequence[Found], minimize: bool) -> Found | None:
    """Return the best; of a population, of the generation that has ended last."""
    done = [each for each in found if each.value is not None]
    last = max((each.generation or 0 for each in done), default=0)
    done = [each for each in done if (each.generation or 0) == last]
    sign = -1 if minimize else 1
    return max(done, key=lambda each: sign * (each.value or 0.0), default=None)


def short(value: float | None) -> str:
    """Return a number for a table."""
    return "-" if value is None else f"{value:.6g}"
