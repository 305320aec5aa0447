"""Faults that a rank commits in its environment's steps, for `faults.py`.

It is rltrain's plugin `planted`, and runs a library's own training with the same faults:

    torchrun --nproc-per-node 2 benchmarks/faults_planted.py rsl_rl

The variable FAULTS names a folder. In it, `plan.json` lists the faults: rank, iteration, step in
that iteration, and what to do. Each is committed once, however often its rank starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rltrain import hookimpl
from rltrain.specs import ObserverSpec

FOLDER = "FAULTS"
"""The variable."""

COMMITTED = "committed"
"""In the folder: when the last fault was committed, and in which iteration."""

Fault = tuple[int, int, int, str]
"""Rank, iteration, step in that iteration, and what to do."""

NATIVE_STEPS = 24
"""Steps of an iteration of the library's own training."""


def install(folder: Path, plan: list[Fault]) -> Path:
    """Write the plan, make the plugin known, and return the folder for PYTHONPATH."""
    (folder / "plan.json").write_text(json.dumps(plan))
    info = folder / "plugins" / "planted-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rltrain]\nplanted = faults_planted\n")
    return info.parent


def commit(how: str, folder: Path) -> None:
    """Do what the plan says."""
    ballast = folder / "logs" / "ballast"
    if how == "raise":
        raise ValueError("planted")
    if how == "exit":
        os._exit(5)
    if how == "zero":
        os._exit(0)
    if how == "helper" and os.fork() == 0:
        sys.exit(3)
    if how in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    if how == "sleep":
        time.sleep(1000)
    while how == "spin":
        pass
    if how == "disk":
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
    if how == "cleaned":
        for path in Path(os.environ["TMPDIR"]).iterdir():
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)


class Steps:
    """Steps environments, and commits the faults of this rank."""

    def __init__(self, env: Any, rank: int, iteration: Callable[[], int]) -> None:
        self.folder, self.iteration = Path(os.environ[FOLDER]), iteration
        plan = json.loads((self.folder / "plan.json").read_text())
        self.plan = {(at, step): how for who, at, step, how in plan if who == rank}
        self.rank, self.now, self.count, self.inner = rank, -1, 0, env.step

    def __call__(self, actions: Any) -> Any:
        """Step."""
        now = self.iteration()
        self.count = self.count + 1 if now == self.now else 0
        self.now = now
        how = self.plan.get((now, self.count), "")
        if how and self._first(f"{self.rank}-{now}-{self.count}-{how}"):
            partial = self.folder / f"{COMMITTED}.partial"
            partial.write_text(f"{time.time()} {now}")
            partial.replace(self.folder / COMMITTED)  # A reader never sees it empty.
            commit(how, self.folder)
        observations, rewards, *rest = self.inner(actions)
        if how == "nan" and self.fresh:
            rewards = rewards * float("nan")
        return observations, rewards, *rest

    def _first(self, name: str) -> bool:
        """Whether it is the first time: a rank that starts again has forgotten."""
        done = self.folder / "done"
        done.mkdir(exist_ok=True)
        self.fresh = not (done / name).exists()
        (done / name).touch()
        return self.fresh


@hookimpl
def rltrain_provides() -> list[Any]:
    """Provide the observer."""
    return [
        ObserverSpec(name="planted", factory="faults_planted:Planted", summary="commits faults")
    ]


class Planted:
    """The observer."""

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session: Any) -> Iterator[Any]:
        """Commit the faults of this rank in the steps of its environments."""
        env = yield
        env.step = Steps(env, session.world.rank, lambda: session.iteration)
        return env


def native(library: str) -> None:
    """Train with a library's own code."""
    import native

    rank = int(os.environ["RANK"])
    made = native.environments

    def environments(num_envs: int) -> Any:
        env = made(num_envs)
        steps = iter(range(10**9))
        env.step = Steps(env, rank, lambda: next(steps) // NATIVE_STEPS)
        return env

    native.environments = environments
    row = next(row for row in native.ROWS if row.library == library)
    native.native(row, 60, str(Path(os.environ[FOLDER]) / "logs"), num_envs=8)


if __name__ == "__main__":
    native(sys.argv[1])
