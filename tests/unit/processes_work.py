"""Work of ranks in the launcher's tests, importable by the processes that it starts."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from rltrain.errors import UsageError
from rltrain.launch import make_report, write_report
from rltrain.types import TrainResult

NAMES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PJRT_NPROC"),
)


def rank() -> int:
    return int(os.environ["RANK"])


def tell_place(config, reports):
    """Write this rank's environment variables and heavy imports to a file."""
    place = {name: os.environ.get(name) for name in NAMES}
    place["heavy"] = sorted({"jax", "torch", "numpy"} & set(sys.modules))
    Path(config.log_root, f"rank_{rank()}.json").write_text(json.dumps(place))
    return TrainResult(rank() + 3, 0, None, None, run_dir="here") if rank() == 0 else None


def wait(config, reports, ignoring=False):
    """Signal that this rank runs, and run forever."""
    if ignoring:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    partial = Path(config.log_root, f"{rank()}.partial")
    partial.write_text(str(os.getpid()))
    partial.rename(partial.with_suffix(".pid"))  # The rank may be ended at any time.
    threading.Event().wait(120)


def wait_deaf(config, reports):
    wait(config, reports, ignoring=True)


def others_wait(config):
    """Wait until the others run, so that a failing rank stops running ranks."""
    if rank() != 1:
        wait(config, "")
    while not Path(config.log_root, "0.pid").exists():
        time.sleep(0.01)


def raise_(config, reports):
    others_wait(config)
    try:
        raise ValueError("planted")
    except ValueError as error:
        write_report(Path(reports), make_report(rank(), error))
        os._exit(1)


def refuse(config, reports):
    write_report(Path(reports), make_report(rank(), UsageError("--num-envs 3: must be even.")))
    os._exit(2)


def exit_0(config, reports):
    others_wait(config)
    os._exit(0)


def kill_with_helper(config, reports):
    """Die while a process lives that this rank has forked: it holds the rank's pipes."""
    others_wait(config)
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
