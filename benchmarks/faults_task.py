"""A task that fails next to its steps, for `faults_around.py`: the variable AROUND says how."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium

HOW, _, RANK = os.environ.get("AROUND", "").partition("@")
HERE = os.environ.get("RANK", "0") == (RANK or "1")


def _server() -> int:
    """Return the process from which this rank was forked."""
    return os.getppid()


class Around(gymnasium.Env):  # type: ignore[misc]
    """Its reward is 1, and an episode has 20 steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self) -> None:
        """Make one; what happens before the first step happens here."""
        self._steps = 0
        if "RANK" in os.environ:
            Path(os.environ["AROUND_FOLDER"], f"rank_{os.environ['RANK']}").write_text(
                str(os.getpid())
            )
        if not HERE:
            return
        if HOW == "start hangs":
            time.sleep(1000)
        if HOW == "exit handler leaves with 0":
            atexit.register(os._exit, 0)
        if HOW == "exit handler leaves with 5":
            atexit.register(os._exit, 5)
        if HOW == "exit handler hangs":
            atexit.register(time.sleep, 1000)
        if HOW == "thread stays":
            threading.Thread(target=time.sleep, args=(1000,), name="bridge").start()
        if HOW == "process stays":
            spawn = multiprocessing.get_context("spawn")
            spawn.Process(target=time.sleep, args=(1000,), name="viewer").start()
        if HOW == "helper stays":
            subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        super().reset(seed=seed)
        self._now = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        """Do a step."""
        self._now += 1
        self._steps += 1
        if HERE and self._steps == 30:
            self._late()
        return self.observation_space.sample(), 1.0, False, self._now == 20, {}

    def _late(self) -> None:
        if HOW == "server killed":
            os.kill(_server(), signal.SIGKILL)
        if HOW == "rank killed, its helper lives":
            subprocess.Popen(["sleep", "1000"], close_fds=False)
            os.kill(os.getpid(), signal.SIGKILL)
        if HOW == "rank leaves with 0":
            os._exit(0)
        if HOW == "step hangs":
            time.sleep(1000)
        if HOW == "sys.exit(0)":
            sys.exit(0)

    def close(self) -> None:
        """End."""
        if HERE and HOW == "end hangs" and self._steps > 25:
            time.sleep(1000)


gymnasium.register("Around-v0", entry_point=Around)
