"""Jobs of a real SLURM of two nodes, each of them this machine."""

from __future__ import annotations

import json

import pytest
from slurm_cluster import missing, slurm

pytestmark = pytest.mark.slow

RUN = ("--library", "rsl_rl", "--distributed", "--num-envs", "32", "--max-iterations", "2")
TASK_PER_NODE = ("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--time=5")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The variables with which SLURM's commands find it."""
    why = missing()
    if why is not None:
        pytest.skip(why)
    with slurm(tmp_path_factory.mktemp("slurm")) as environ:
        yield environ


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
    assert "slurm started 2 ranks" in run.stderr
    assert not list(command.log_root.rglob("manifest.json"))
