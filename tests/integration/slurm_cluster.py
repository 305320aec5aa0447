"""A real SLURM of two nodes on this host: slurmctld, two slurmd and munged, in a folder.

It needs root, and Debian's packages slurm-wlm and munge. Both nodes are this machine, so their
names do not resolve: jobs meet at 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["missing", "slurm"]

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo="socket={folder}/munge/socket,cred_expire=5"
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerParameters=sched_interval=2,bf_interval=2
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MpiDefault=none
SlurmctldPort={ports[0]}
FirstJobId={ports[0]}
StateSaveLocation="{folder}/state"
SlurmdSpoolDir="{folder}/spool-%n"
SlurmctldPidFile="{folder}/slurmctld.pid"
SlurmdPidFile="{folder}/slurmd-%n.pid"
SlurmctldLogFile="{folder}/slurmctld.log"
SlurmdLogFile="{folder}/slurmd-%n.log"
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=5
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=1000
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=10 State=UP PriorityTier=1
PartitionName=urgent Nodes=n[1-2] MaxTime=10 State=UP PriorityTier=2
"""


def missing() -> str | None:
    """Return why there can be no SLURM here, or None."""
    if os.geteuid() != 0:
        return "a SLURM of its own needs root"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"{', '.join(lacking)} are not installed: apt-get install slurm-wlm munge"
    return None


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Start a SLURM, and yield the environment variables with which its commands find it.

    Where it does not start, the tests are skipped, with the ends of its logs.
    """
    conf = folder / "slurm.conf"
    for name in ("munge", "state", "spool-n1", "spool-n2"):
        (folder / name).mkdir(mode=0o755)
    conf.write_text(
        CONF.format(host=socket.gethostname().split(".")[0], folder=folder, ports=_free_ports(3))
    )
    environ = {**os.environ, "SLURM_CONF": str(conf)}
    with contextlib.ExitStack() as stack:

        def daemon(*words: str) -> None:
            log = stack.enter_context((folder / f"{words[0]}.out").open("a"))
            process = subprocess.Popen(
                words, env=environ, stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(_end, process)

        daemon(*_munged(folder / "munge"))
        _wait(lambda: (folder / "munge" / "socket").exists(), "munged", folder)
        daemon("slurmctld", "-D", "-f", str(conf))
        for node in ("n1", "n2"):
            daemon("slurmd", "-D", "-N", node, "-f", str(conf))
        _wait(lambda: _idle(environ) == 2, "the nodes", folder)
        yield {"SLURM_CONF": str(conf)}


def _munged(folder: Path) -> tuple[str, ...]:
    key = folder / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    files = {
        "key-file": key,
        "socket": folder / "socket",
        "pid-file": folder / "pid",
        "seed-file": folder / "seed",
        "log-file": folder / "log",
    }
    # Otherwise it refuses to run as root, and below a folder that others may write.
    return ("munged", "--foreground", "--force", *(f"--{k}={v}" for k, v in files.items()))


def _idle(environ: dict[str, str]) -> int:
    try:
        done = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--partition=main", "--format=%t"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 0
    return done.stdout.split().count("idle")


def _wait(ready, what: str, folder: Path, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            logs = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
            pytest.skip(f"SLURM does not start here: {what} not up after {timeout:.0f} s\n{logs}")
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
