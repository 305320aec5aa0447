"""Prints the table of `faults.py` for two ranks that other programs start.

    python benchmarks/faults_clusters.py
    python benchmarks/faults_clusters.py --row srun machines --fault raise kill
    python benchmarks/faults_clusters.py --mpiexec /opt/openmpi/bin/mpiexec --allow-run-as-root

- "mpiexec" starts the ranks, as does "srun", of a real SLURM of two nodes;
- "--launcher slurm" submits a job to it;
- "machines" are two network namespaces, each with a rank; "cut" takes the cable out;
- "--launcher ray" starts them on a Ray cluster of two nodes, both of them this machine.

SLURM and machines need root. What cannot be had here is named, and left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import faults

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))

import machines
import slurm_cluster

RUN = ["-m", "rltrain", "--library", "rsl_rl", "--distributed", "--device", "cpu"]
FAULTS = ["raise", "exit", "zero", "kill", "sleep", "Ctrl-C", "SIGTERM"]


@contextlib.contextmanager
def mpiexec(words: list[str]) -> Iterator[faults.Row]:
    """Yield the row of ranks that mpiexec starts."""
    program = os.path.abspath(shutil.which(words[0]) or words[0])
    before = [program, *words[1:], "-n", "2"]
    yield faults.Row("mpiexec", [*RUN, "--master-port", "29871"], before=before)


@contextlib.contextmanager
def with_slurm(name: str) -> Iterator[faults.Row]:
    """Start a SLURM, and yield the row of its tasks."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        with slurm_cluster.slurm(folder) as variables:
            os.environ.update(variables)
            srun = ["srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--time=5"]
            if name == "srun":
                yield faults.Row(name, RUN, before=srun)
            else:
                job = ["--launcher", "slurm", "--nnodes", "2", "--nproc-per-node", "1"]
                yield faults.Row(name, [*RUN, *job, "slurm.time=0:05:00", "slurm.cancel=true"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def with_machines() -> Iterator[faults.Row]:
    """Make two machines, and yield the row of a run on both."""
    with machines.connected_machines(2) as (first, second):
        inside = [shlex.join(each.inside) + ' "$@" --node-rank' for each in (first, second)]
        script = f"{inside[1]} 1 & exec {inside[0]} 0"
        nodes = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", first.address]
        faults.LATER["cut"] = lambda run: second.cut_link()  # It stays so.
        yield faults.Row("machines", [*RUN, *nodes], before=["bash", "-c", script, "bash"])


@contextlib.contextmanager
def with_ray() -> Iterator[faults.Row]:
    """Start a Ray cluster, and yield the row of a run on it."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # Paths of sockets must be short.
    path = [str(folder / "run" / "plugins"), str(faults.HERE), *faults.PATHS]
    # Ray's workers have the variables of what started its nodes.
    os.environ.update({faults.FOLDER: str(folder / "run"), "PYTHONPATH": os.pathsep.join(path)})
    # It never warns that a disk is nearly full.
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_local_fs_capacity_threshold": "1"}
    os.environ.update({**quiet, "RAY_AUTH_MODE": "disabled"})
    from ray.cluster_utils import Cluster

    (Path(tempfile.gettempdir()) / "ray").mkdir(exist_ok=True)  # Ray notes its address there.
    node, cluster = {"num_cpus": 2, "object_store_memory": 80 << 20}, Cluster()
    try:
        cluster.add_node(**node, temp_dir=str(folder / "ray"), include_dashboard=False)
        cluster.add_node(**node)
        cluster.wait_for_nodes(timeout=60)
        os.environ["RAY_ADDRESS"] = cluster.address
        job = ["--launcher", "ray", "--nnodes", "2", "--nproc-per-node", "1"]
        yield faults.Row("--launcher ray", [*RUN, *job], folder=folder / "run")
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def missing(name: str) -> str | None:
    """Return why a row cannot be had here."""
    if name in ("srun", "--launcher slurm"):
        return slurm_cluster.missing()
    if name == "machines":
        return machines.missing()
    if name == "--launcher ray" and importlib.util.find_spec("ray") is None:
        return "ray is not installed"
    return None


def main() -> int:
    """Print the table."""
    names = ["mpiexec", "srun", "--launcher slurm", "machines", "--launcher ray"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", nargs="*", default=names, help="names of rows")
    parser.add_argument("--fault", nargs="*", default=FAULTS, help="names of faults")
    parser.add_argument("--mpiexec", default="mpiexec", help="the program, and flags of it")
    arguments, more = parser.parse_known_args()
    contexts = {
        "mpiexec": lambda: mpiexec([arguments.mpiexec, *more]),
        "srun": lambda: with_slurm("srun"),
        "--launcher slurm": lambda: with_slurm("--launcher slurm"),
        "machines": with_machines,
        "--launcher ray": with_ray,
    }
    for name in arguments.row:
        if why := missing(name):
            print(f"{name}: left out, {why}", flush=True)
            continue
        with contexts[name]() as row:
            faults.table([row], [*arguments.fault, *(["cut"] if name == "machines" else [])])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
