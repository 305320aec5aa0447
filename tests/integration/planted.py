"""An observer that commits faults on a rank: what `test_planted_faults.py` installs.

The variable PLANTED is a list, as JSON, of rank, when and what. When is "start", before
environments are made; "end", as they are closed; or iteration and step, such as "12.7". Each is
committed once, however often its rank starts.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from rltrain import hookimpl
from rltrain.specs import ObserverSpec

HERE = Path(os.environ["PROBE_FOLDER"])
LEADER = os.getsid(0)
"""The command: each has a session of its own."""


@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="planted", factory="planted:Planted", summary="commits faults")]


def spin():
    while True:
        pass


def fork_helper():
    if os.fork() == 0:
        sys.exit(3)


def leave_thread():
    threading.Thread(target=time.sleep, args=(1000,), name="bridge").start()


def leave_process():
    spawn = multiprocessing.get_context("spawn")
    spawn.Process(target=time.sleep, args=(1000,), name="viewer").start()


def leave_command():
    subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, close_fds=False)


def leave_and_die():
    leave_command()
    os.kill(os.getpid(), signal.SIGKILL)


def fill_disk():
    with contextlib.suppress(OSError), (HERE / "logs" / "ballast").open("wb", 0) as file:
        while True:
            file.write(bytes(1 << 16))


def clean_up():
    for path in Path(os.environ["TMPDIR"]).iterdir():
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)


FAULTS = {
    "exit 0": lambda: os._exit(0),
    "exit 5": lambda: os._exit(5),
    "sys.exit(0)": lambda: sys.exit(0),
    "sleep": lambda: time.sleep(1000),
    "spin": spin,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "Ctrl-C": lambda: os.kill(LEADER, signal.SIGINT),
    "SIGTERM": lambda: os.kill(LEADER, signal.SIGTERM),
    "helper fails": fork_helper,
    "thread stays": leave_thread,
    "process stays": leave_process,
    "helper stays": leave_command,
    "killed, helper stays": leave_and_die,
    "exit handler leaves with 0": lambda: atexit.register(os._exit, 0),
    "exit handler leaves with 5": lambda: atexit.register(os._exit, 5),
    "exit handler hangs": lambda: atexit.register(time.sleep, 1000),
    "disk is full": fill_disk,
    "disk is lost": lambda: subprocess.run(["umount", "-l", str(HERE / "logs")], check=True),
    "temporary files removed": clean_up,
    "NaN": lambda: None,
}


class Planted:
    def commit(self, when):
        how = self.plan.get(when)
        mark = HERE / f"committed-{self.rank}-{when}"
        if how is None or mark.exists():
            return None
        mark.touch()
        if how == "raise":
            raise ValueError("planted")
        FAULTS[how]()
        return how

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session):
        self.rank, planted = session.world.rank, json.loads(os.environ["PLANTED"])
        self.plan = {when: how for rank, when, how in planted if rank == self.rank}
        self.commit("start")
        env = yield
        inner, close, self.now, self.count = env.step, env.close, -1, 0

        def step(actions):
            self.count = self.count + 1 if session.iteration == self.now else 0
            self.now = session.iteration
            how = self.commit(f"{self.now}.{self.count}")
            observations, rewards, *rest = inner(actions)
            return observations, rewards * float("nan") if how == "NaN" else rewards, *rest

        def end():
            self.commit("end")
            close()

        env.step, env.close = step, end
        return env
