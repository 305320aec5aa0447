"""Jobs of a real SLURM of two nodes, each of them this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
import torch
from helpers import wait_for

pytestmark = pytest.mark.slow

RUN = ("--library", "rsl_rl", "--distributed", "--num-envs", "32", "--max-iterations", "2")
TASK_PER_NODE = ("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--time=5")


def manifest(command) -> dict:
    (path,) = command.log_root.rglob("manifest.json")
    return json.loads(path.read_text())


def test_a_task_is_a_rank(command, cluster):
    run = command(*RUN, "--observer", "probe", before=TASK_PER_NODE, **cluster)
    assert run.returncode == 0, run.stderr
    assert "2 ranks on cpu, 2 nodes" in run.stdout
    assert (command.folder / "state_1.pt").exists()
    assert manifest(command)["world_size"] == 2


def test_a_task_per_node_starts_the_ranks_of_its_node(command, cluster):
    run = command(*RUN, "--nproc-per-node", "2", before=TASK_PER_NODE, **cluster)
    assert run.returncode == 0, run.stderr
    assert "4 ranks on cpu, 2 nodes" in run.stdout
    assert manifest(command)["world_size"] == 4


def test_jax_joins_the_tasks_too(probe, cluster):
    words = ("--library", "averager", "--task", "Idle-v0", "--framework", "jax", "--device", "cpu")
    run = probe(*words, *RUN[2:], before=TASK_PER_NODE, **cluster)
    assert run.returncode == 0, run.stderr
    for rank in (0, 1):
        world = json.loads((probe.folder / f"seen_{rank}.json").read_text())["world"]
        assert (world["rank"], world["world_size"], world["num_nodes"]) == (rank, 2, 2)


def test_tasks_do_not_each_train_alone(command, cluster):
    run = command("--max-iterations", "1", before=TASK_PER_NODE, **cluster)
    assert run.returncode != 0
    assert "started 2 ranks" in run.stderr
    assert not list(command.log_root.rglob("manifest.json"))


# The launcher, which submits the run as a job

SUBMIT = ("--launcher", "slurm", "slurm.time=5:00", "--nnodes", "2", "--nproc-per-node", "1")
FOREVER = ("--task", "probe_plugin:Slow-v0", "--num-envs", "2", "--max-iterations", "100000")


def wait_for_state(cluster, wanted, number="", timeout=120) -> str:
    """Wait for the state of a job, by default of the only one, and return its number."""
    deadline = time.monotonic() + timeout
    while True:
        jobs = slurm_command(cluster, "squeue", "--noheader", "--format=%i %T").split("\n")
        for found, _, state in (job.partition(" ") for job in jobs):
            if state == wanted and found == (number or found):
                return found
        assert time.monotonic() < deadline, jobs
        time.sleep(0.3)


def slurm_command(cluster, *words) -> str:
    done = subprocess.run(
        words, env={**os.environ, **cluster}, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def wait_for_checkpoints(command, number, timeout=90) -> None:
    saved = "*/*/*/checkpoints/model_*.pt"
    wait_for(lambda: len(list(command.log_root.glob(saved))) >= number, timeout)


def test_a_job_that_is_queued_again_goes_on_to_the_same_bytes(command, cluster):
    train = ("--library", "rsl_rl", "--num-envs", "32", "agent.save_interval=2")
    train = (*train, "--max-iterations", "48")
    variables = {**cluster, "OMP_NUM_THREADS": "1"}
    run = command.start(*train, *SUBMIT, "--run-name", "mine", **variables)
    number = wait_for_state(cluster, "RUNNING")
    wait_for_checkpoints(command, 3)
    # A job of a partition that comes first preempts it.
    urgent = ("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--wrap=sleep 1")
    slurm_command(cluster, *urgent, f"--output={command.folder}/urgent")
    wait_for_state(cluster, "PENDING", number)
    wait_for_state(cluster, "RUNNING", number)
    before = len(list(command.log_root.glob("*/*/*/checkpoints/model_*.pt")))
    wait_for_checkpoints(command, before + 2)
    # SLURM sends this signal before the time limit.
    slurm_command(cluster, "scancel", "--signal=USR2", number)
    done = command.finish(run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Resuming") == 2
    # It goes on from where it was asked to end, not from a checkpoint of the library's interval.
    assert done.stdout.count("ending after this iteration, with a checkpoint") == 2
    assert "submitit" not in done.stdout
    names = {path.parent.name for path in command.log_root.rglob("manifest.json")}
    assert {name.partition("_mine_")[2] for name in names} == {f"slurm-{number}"}
    through = command("--distributed", "--nproc-per-node", "2", *train, OMP_NUM_THREADS="1")
    assert through.returncode == 0, through.stderr
    first, *_, last = sorted(
        command.log_root.rglob("model_47.pt"), key=lambda path: path.stat().st_mtime
    )
    assert tensors(torch.load(first, weights_only=False)) == tensors(
        torch.load(last, weights_only=False)
    )


def tensors(saved, name="") -> dict:
    """Return all tensors of a checkpoint as bytes, by name."""
    if isinstance(saved, torch.Tensor):
        return {name: saved.numpy().tobytes()}
    items = saved.items() if isinstance(saved, dict) else ()
    return {key: value for k, v in items for key, value in tensors(v, f"{name}.{k}").items()}


def test_a_failure_of_any_node_ends_the_job_and_is_shown(command, cluster):
    run = command("--library", "rsl_rl", *FOREVER, *SUBMIT, PLANTED="1:40", **cluster)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Node 1" in run.stdout
    assert "planted in one rank's environment" in run.stdout
    assert "ended as FAILED. Its output: " in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("cancel", [False, True])
def test_ctrl_c_ends_the_job_only_if_asked(command, cluster, cancel):
    words = ("--library", "rsl_rl", *FOREVER, *SUBMIT, f"slurm.cancel={cancel}")
    run = command.start(*words, **cluster)
    number = wait_for_state(cluster, "RUNNING")
    command.ranks(run, 2)
    run.send_signal(signal.SIGINT)
    done = command.finish(run)
    assert done.returncode == 130
    assert ("continues. To end it: scancel" in done.stdout) is not cancel
    if not cancel:
        assert wait_for_state(cluster, "RUNNING") == number
        slurm_command(cluster, "scancel", number)
    wait_for(lambda: not slurm_command(cluster, "squeue", "--noheader"), every=0.3)


def test_jax_can_be_submitted_too(probe, cluster):
    words = ("--library", "averager", "--task", "Idle-v0", "--framework", "jax", "--device", "cpu")
    run = probe(*words, *SUBMIT, *RUN[3:], **cluster)
    assert run.returncode == 0, run.stdout + run.stderr
    for rank in (0, 1):
        world = json.loads((probe.folder / f"seen_{rank}.json").read_text())["world"]
        assert (world["rank"], world["world_size"], world["num_nodes"]) == (rank, 2, 2)


def test_what_slurm_refuses_is_a_users_mistake(command, cluster):
    run = command("--library", "rsl_rl", *SUBMIT, "slurm.partition=none", **cluster)
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].startswith("rltrain: --launcher slurm: the job was refused")
    assert "invalid partition" in run.stderr
    assert "Traceback" not in run.stderr
