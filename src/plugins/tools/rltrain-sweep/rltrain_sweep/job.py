"""A run of a study: a process `rltrain`, which Ctrl-C and other trials cannot disturb."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rltrain.launch import end_with_parent
from rltrain_sweep.space import with_values
from rltrain_sweep.study import Found, Study

STOPPED = (75, 130, 143, -signal.SIGTERM)
"""Statuses of a run that a signal has ended."""
_TO_STOP = 600.0
"""Seconds that a run has to save after SIGTERM, before the next signal."""


@dataclass(frozen=True)
class Slot:
    """What a run has of this machine, alone; empty where it has all."""

    gpus: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ended:
    """How a trial has ended."""

    state: str
    """"complete", "pruned", "failed"; or "stopped": it can be taken up again."""
    value: float | None = None
    reason: str = ""


class Job(ABC):
    """What one slot does. A subclass starts a run, and says what follows when it has ended."""

    variables: ClassVar[Mapping[str, str]] = {}
    """Environment variables of its processes."""
    process: subprocess.Popen[bytes]

    def __init__(self, study: Study, found: Found, lock: int, slot: Slot) -> None:
        """Keep the lock: the job is this worker's as long as it, or its run, is there."""
        self.study, self.found, self.lock, self._slot = study, found, lock, slot
        self.options: dict[str, Any] = {}

    def start_run(self, name: str, **more: Any) -> None:
        """Start a run, which resumes if it was stopped; `more` are options of it."""
        self.options = {**with_values(self.study.options, self.found.values), **more}
        if self._slot.gpus:
            self.options["gpu_ids"] = list(self._slot.gpus)
        file = self.study.path / "trials" / f"{name}.yaml"
        file.write_text(json.dumps(self.options, indent=2))
        where = ("--log-root", str(self.study.runs), "--run-name", name)
        self.start(name, "--config", str(file), "--auto-resume", *where)

    def start(self, name: str, *command: str) -> None:
        """Start a command of rltrain, whose output goes to the log of this name."""
        self.asked, self._signalled = "", math.inf
        with (self.study.path / "trials" / f"{name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rltrain", *command],
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is this process's.
                pass_fds=(self.lock,),
                preexec_fn=_prepare(self._slot.cores),
            )

    def poll(self) -> Ended | None:
        """Look at the run; return how the job has ended, if it has."""
        if (status := self.process.poll()) is None:
            waited = time.monotonic() - self._signalled
            if not self.asked:
                self.watch()
            elif waited > _TO_STOP:
                self._send(signal.SIGTERM if waited < 2 * _TO_STOP else signal.SIGKILL)
            return None
        unasked = status in STOPPED and not self.asked
        return Ended("stopped") if unasked or self.asked == "stopped" else self.after(status)

    @abstractmethod
    def watch(self) -> None:
        """Look at what the run has recorded; perhaps `stop` it."""

    @abstractmethod
    def after(self, status: int) -> Ended | None:
        """Return how the job has ended, or None if another process was started."""

    def stop(self, why: str = "stopped") -> None:
        """Let the run save and end; asked a second time, at once."""
        self.asked, self._signalled = why, time.monotonic()
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def failed(self, name: str, status: int) -> Ended:
        """Return that a process has failed, and why, in a line."""
        log = self.study.path / "trials" / f"{name}.log"
        lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        why = lines[-1].removeprefix("rltrain: ")
        if status < 0:
            why = f"killed by {signal.Signals(-status).name}"
        return Ended("failed", reason=f"{why}; see {log}")


def _prepare(cores: tuple[int, ...]) -> Any:
    """Return what the new process does first: its cores, and SIGTERM once this process dies."""
    parent = os.getpid()

    def prepare() -> None:
        end_with_parent(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        if cores:
            os.sched_setaffinity(0, cores)

    return prepare
