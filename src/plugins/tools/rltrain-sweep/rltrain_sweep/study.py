"""A study: a folder with what is searched for, Optuna's journal, and a run folder for each trial.

Optuna has no heartbeat for trials that are asked for. Here a trial that runs holds a lock, and so
does its run. One whose lock is free is taken up again, under its own number, by any worker.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import Trial, TrialState

from rltrain.commands import read_flags
from rltrain.errors import UsageError, in_a_line
from rltrain.options import RunOptions, load_yaml
from rltrain.runs import Run, RunFolder, check_writable
from rltrain_sweep.checks import make_pruner, make_sampler
from rltrain_sweep.options import StudyOptions
from rltrain_sweep.space import ends_of, space_in, values_of

optuna.logging.set_verbosity(optuna.logging.WARNING)

_FILE = "study.yaml"
_TRIALS = 20
"""Where the user does not say how many."""
_TO_LOCK = 60.0
"""Seconds in which another worker has chosen its next trial."""


@dataclass(frozen=True)
class Found:
    """What a trial has found, or a member of a population in a generation."""

    number: int
    values: Mapping[str, Any]
    """Of the space, by key."""
    value: float | None = None
    """The objective; None of one that is not complete."""
    state: str = "running"
    """Or "waiting", "complete", "pruned", "failed"."""
    generation: int | None = None
    parent: int | None = None
    """The member whose checkpoint the generation began with."""
    checkpoint: str | None = None
    """The SHA-256 of what a member has saved."""

    @property
    def name(self) -> str:
        """The name of its run."""
        if self.generation is None:
            return f"trial-{self.number:04d}"
        return f"member-{self.number:03d}-generation-{self.generation:03d}"


class Study:
    """A study's folder."""

    def __init__(self, path: Path) -> None:
        """Read the folder; `UsageError` if it is no study, or of another version."""
        self.path = path = path.absolute()
        self.runs = path / "runs"
        if not (path / _FILE).is_file():
            raise UsageError(f"{path}: is no study: {_FILE} is missing. Name a study's folder.")
        found = load_yaml(str(path / _FILE), "sweep")
        try:
            self.options: Mapping[str, Any] = found.pop("run")
            self.folder: str = found.pop("folder")
            self.settings = read_flags(StudyOptions, argparse.Namespace(**found))
            self.space = space_in(self.options)
            given = self.options.get("seed")
            self.seed = RunOptions.seed if given is None or "seed" in self.space else int(given)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path / _FILE}: is damaged ({in_a_line(error):.200}).") from error
        check_writable("study", str(path))
        for name in ("locks", "trials", "population"):
            (path / name).mkdir(exist_ok=True)

    @classmethod
    def create(cls, path: Path, settings: StudyOptions, run: Mapping[str, Any]) -> Study:
        """Return the study in a folder, a new one or the same that is there.

        Raises:
            UsageError: the one that is there searches for something else.
        """
        check_writable("study", str(path))
        kept = {each.name: getattr(settings, each.name) for each in fields(StudyOptions)}
        text = json.dumps({**kept, "folder": os.getcwd(), "run": run}, indent=2)
        content = json.loads(text)
        before = load_yaml(str(path / _FILE), "--study") if (path / _FILE).exists() else {}
        for name, value in before.items():
            if name != "trials" and value != content.get(name):
                raise UsageError(
                    f"--study {path}: has another {name}, {value}, not {content.get(name)}. "
                    f"Name another folder, or continue it: rltrain sweep work {path}."
                )
        path.mkdir(parents=True, exist_ok=True)
        RunFolder(path).write_atomically(_FILE, lambda file: file.write_text(text))
        return cls(path)

    def lock(self, name: str) -> int | None:
        """Return a descriptor that holds the lock of this name; None if another process does."""
        lock = os.open(self.path / "locks" / name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other worker choose at the same time."""
        end = time.monotonic() + _TO_LOCK
        while (lock := self.lock("study")) is None:
            if time.monotonic() > end:
                raise UsageError(f"{self.path}: another worker hangs with the lock locks/study.")
            time.sleep(0.05)
        try:
            yield
        finally:
            os.close(lock)

    @functools.cached_property
    def storage(self) -> BaseStorage:
        """Where Optuna keeps the trials; `UsageError` if that cannot be opened."""
        url = self.settings.storage
        try:
            if url is not None:  # A file of SQLite is in the working folder of the study.
                here = re.sub("^sqlite:///(?!/)", f"sqlite:///{self.folder}/", url)
                return optuna.storages.get_storage(here)
            return JournalStorage(JournalFileBackend(str(self.path / "journal.log")))
        except Exception as error:  # Of SQLAlchemy, of a driver, or a damaged journal.
            where = f"--storage {url}" if url else self.path
            raise UsageError(f"{where}: cannot be opened ({in_a_line(error):.200}).") from error

    @functools.cached_property
    def optuna(self) -> optuna.Study:
        """Optuna's study."""
        return optuna.create_study(
            storage=self.storage,
            study_name="sweep" if self.settings.storage is None else self.path.resolve().name,
            direction="minimize" if self.settings.minimize else "maximize",
            pruner=make_pruner(self.settings),
            sampler=self._sampler(0),
            load_if_exists=True,
        )

    def _sampler(self, number: int) -> Any:
        """Return the sampler of a trial: what it draws does not depend on which worker asks."""
        seed = int(np.random.SeedSequence((self.seed, number)).generate_state(1)[0])
        one_sequence = re.search("qmc|grid", self.settings.sampler.lower())
        return make_sampler(self.settings, self.space, self.seed if one_sequence else seed)

    @property
    def trials(self) -> float:
        """How many there are in all; a grid has no more than its points."""
        grid = "grid" in self.settings.sampler.lower()
        points = math.prod(len(ends_of(x)) for x in self.space.values()) if grid else math.inf
        return min(points, self.settings.trials or (points if grid else _TRIALS))

    def take(self) -> tuple[Trial, int] | None:
        """Take up a trial whose worker has died, or begin the next one; return its lock, too."""
        with self.locked():
            found = self.found()
            for each in found:
                if each.state == "running" and (lock := self.lock(each.name)) is not None:
                    if set(each.values) == set(self.space):
                        of = self.storage.get_study_id_from_name(self.optuna.study_name)
                        known = self.storage.get_trial_id_from_study_id_trial_number(
                            of, each.number
                        )
                        return Trial(self.optuna, known), lock
                    self.optuna.tell(each.number, state=TrialState.FAIL)
                    os.close(lock)  # Its worker died before it had all values: nothing has run.
            begun = [each for each in found if each.values]
            if len(begun) >= self.trials and all(each.state != "waiting" for each in found):
                return None
            self.optuna.sampler = self._sampler(len(begun))
            trial = self.optuna.ask(dict(self.space))
            lock = self.lock(Found(trial.number, {}).name)
            assert lock is not None, "no other worker knows this trial"
            return trial, lock

    def found(self) -> list[Found]:
        """Return all trials, by number."""
        return [
            Found(
                number=each.number,
                values=values_of(each.params),
                value=each.value if each.state.name == "COMPLETE" else None,
                state=each.state.name.lower().replace("fail", "failed"),
            )
            for each in self.optuna.get_trials(deepcopy=False)
        ]

    def runs_of(self, name: str) -> list[Run]:
        """Return the runs of this name that have recorded something, the newest last."""
        found = [*self.runs.glob(f"*/*/*_{name}"), *self.runs.glob(f"*/*/*_{name}_[0-9]*")]
        files = [each / "metrics.jsonl" for each in found]
        files = [each for each in files if each.is_file() and each.stat().st_size]
        return [Run(file.parent) for file in sorted(files, key=lambda x: x.stat().st_mtime_ns)]
