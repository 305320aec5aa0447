from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import install, living, wait_for
from slurm_cluster import missing, slurm

TIMEOUT = 150


@dataclass
class Run:
    """A finished command and where it wrote."""

    returncode: int
    stdout: str
    stderr: str
    log_root: Path

    @property
    def folder(self) -> Path:
        (folder,) = [path.parent for path in self.log_root.rglob("manifest.json")]
        return folder

    def checkpoints(self) -> list[Path]:
        return sorted(self.folder.glob("checkpoints/*.p*"))


class Command:
    """Starts `rltrain` like a user, in a separate session, with a time limit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plugins = folder / "plugins"
        self.started: list[subprocess.Popen[str]] = []
        self.log_root = folder / "logs"

    def install(self, module: str, source: str) -> None:
        install(self.plugins, module, source)

    def start(
        self,
        *arguments: str,
        launcher: tuple[str, ...] = (),
        before: tuple[str, ...] = (),
        **environ: str,
    ):
        command = [*before, sys.executable, "-m", *(launcher or ("rltrain",)), *arguments]
        # Before that of the user, who may test another tree than the one that is installed.
        path = os.pathsep.join(filter(None, [str(self.plugins), os.environ.get("PYTHONPATH")]))
        variables = {**os.environ, "PYTHONPATH": path, **environ}
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            if name not in environ:
                variables.pop(name, None)
        process = subprocess.Popen(
            [*command, "--log-root", str(self.log_root)],
            cwd=self.folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str], timeout: float = TIMEOUT) -> Run:
        stdout, stderr = process.communicate(timeout=timeout)
        return Run(process.returncode, stdout, stderr, self.log_root)

    def __call__(self, *arguments: str, **more) -> Run:
        return self.finish(self.start(*arguments, **more))

    def members(self, process: subprocess.Popen[str]) -> list[int]:
        return living(process.pid)

    def ranks(self, process: subprocess.Popen[str], count: int, timeout: float = 60) -> list[int]:
        files = [self.folder / f"rank_{rank}.pid" for rank in range(count)]
        started = lambda: all(path.exists() for path in files)  # noqa: E731
        wait_for(started, timeout, process=process, what="the ranks did not start")
        return [int(path.read_text()) for path in files]

    def checkpoint(self, process: subprocess.Popen[str], name: str = "model_0.pt") -> None:
        found = lambda: list(self.log_root.glob(f"*/*/*/checkpoints/{name}"))  # noqa: E731
        wait_for(found, process=process, what="no iteration was done")

    def all_gone(self, process: subprocess.Popen[str], within: float = 5) -> bool:
        deadline = time.monotonic() + within
        while self.members(process) and time.monotonic() < deadline:
            time.sleep(0.1)
        return not self.members(process)

    def end(self) -> None:
        for process in self.started:
            for pid in self.members(process):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait(timeout=10)
            process.stdout.close()
            process.stderr.close()


PLUGIN = '''
"""A third party's plugin: an observer of models, and a task that fails on demand."""
import os, pathlib
import gymnasium
import numpy as np
from rltrain import hookimpl
from rltrain.specs import ObserverSpec


@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="probe", factory="probe_plugin:Probe", summary="keeps models")]


class Probe:
    def __init__(self):
        self.models = {}

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, role):
        self.models[role] = model = yield
        return model

    @hookimpl
    def rltrain_shutdown(self, session, error):
        import torch

        folder = pathlib.Path(os.environ["PROBE_FOLDER"])
        rank = session.world.rank
        (folder / f"cores_{rank}").write_text(" ".join(map(str, os.sched_getaffinity(0))))
        state = {
            f"{role}.{name}": value.detach().clone()
            for role, model in self.models.items()
            for name, value in model.state_dict().items()
        }
        torch.save(state, folder / f"state_{rank}.pt")


class Slow(gymnasium.Env):
    """Says that it runs; raises in the step that the environment variable names, on that rank."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def tell(self):
        # Renamed into place: every episode writes it anew, and a reader must never see it empty.
        file = pathlib.Path(os.environ["PROBE_FOLDER"], f"rank_{os.environ.get('RANK', '0')}.pid")
        written = file.with_suffix(".new")
        written.write_text(str(os.getpid()))
        written.replace(file)

    def step(self, action):
        import signal, time

        time.sleep(0.001)
        self.steps += 1
        if self.steps % 20 == 2:  # The launcher, which tries the task, makes one step.
            self.tell()
        rank, step, how = (os.environ.get("PLANTED", "") + "::").split(":")[:3]
        if rank == os.environ.get("RANK") and self.steps == int(step):
            if how == "hang":
                time.sleep(1000)
            if how == "kill the server":
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(1000)
            if how == "leave":
                os._exit(0)
            if how == "helper":
                os.fork() or exit(3)
                return np.zeros(3, np.float32), 1.0, False, False, {}
            raise ValueError("planted in one rank's environment")
        return np.zeros(3, np.float32), 1.0, False, False, {}


gymnasium.register("Slow-v0", entry_point="probe_plugin:Slow", max_episode_steps=20)
'''


@pytest.fixture(scope="module")
def module_command(tmp_path_factory):
    """Starts `rltrain` for all tests of a module, in a folder for each name."""
    made = []

    def named(name: str) -> Command:
        command = Command(tmp_path_factory.mktemp(name))
        command.install("probe_plugin", PLUGIN)
        made.append(command)
        return command

    yield named
    for command in made:
        command.end()


@pytest.fixture
def command(tmp_path):
    command = Command(tmp_path)
    command.install("probe_plugin", PLUGIN)
    os.environ["PROBE_FOLDER"] = str(tmp_path)
    yield command
    del os.environ["PROBE_FOLDER"]
    command.end()


@pytest.fixture
def temporary():
    """A folder of its own for temporary files; pytest's has too long a path for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The variables with which SLURM's commands find a cluster of two nodes."""
    why = missing()
    if why is not None:
        pytest.skip(why)
    with slurm(tmp_path_factory.mktemp("slurm")) as environ:
        yield environ


@pytest.fixture
def probe(command):
    """Starts `rltrain` with the library and the suite of `ranks_probe`."""
    command.install("ranks_probe", (Path(__file__).parent / "ranks_probe.py").read_text())
    return command
