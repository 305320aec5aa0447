"""Runs across two machines with addresses and host names of their own."""

from __future__ import annotations

import json

import pytest
from machines import missing, two_machines

pytestmark = pytest.mark.slow

NODES = ("--distributed", "--nnodes", "2", "--num-envs", "32", "--max-iterations", "2")


@pytest.fixture(scope="module")
def machines():
    """Two of them."""
    why = missing()
    if why is not None:
        pytest.skip(why)
    with two_machines() as made:
        yield made


def on_both(command, machines, *words):
    """Run a command on each machine; node 0 is the first one."""
    first, second = machines
    words = (*words, *NODES, "--master-addr", first.address)
    other = command.start(*words, "--node-rank", "1", before=second.inside)
    run = command(*words, "--node-rank", "0", before=first.inside)
    return run, command.finish(other)


@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_torch_trains_across_machines(command, machines, library):
    runs = on_both(command, machines, "--library", library, "--nproc-per-node", "1")
    for run in runs:
        assert run.returncode == 0, run.stderr
    assert "2 ranks on cpu, 2 nodes" in runs[0].stdout


def test_jax_trains_across_machines(probe, machines):
    words = ("--library", "averager", "--task", "Idle-v0", "--framework", "jax", "--device", "cpu")
    for run in on_both(probe, machines, *words, "--nproc-per-node", "2"):
        assert run.returncode == 0, run.stderr
    for rank in range(4):
        world = json.loads((probe.folder / f"seen_{rank}.json").read_text())["world"]
        assert (world["rank"], world["node_rank"], world["num_nodes"]) == (rank, rank // 2, 2)


def test_nodes_that_a_cluster_counts_meet_without_flags(command, machines):
    """As in a TrainJob, whose variables say which node this is."""
    first, second = machines
    job = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": first.address}
    words = ("--library", "rsl_rl", "--distributed", "--num-envs", "32", "--max-iterations", "2")
    other = command.start(*words, before=second.inside, **job, PET_NODE_RANK="1")
    run = command(*words, before=first.inside, **job, PET_NODE_RANK="0")
    assert run.returncode == 0, run.stderr
    assert command.finish(other).returncode == 0
    assert "2 ranks on cpu, 2 nodes" in run.stdout
