"""However the ranks are started, the run is the same."""

from __future__ import annotations

import socket

import pytest
import torch

pytestmark = pytest.mark.slow

RUN = ["--library", "rl_games", "--distributed", "--num-envs", "32", "--max-iterations", "2"]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def parameters(command):
    (path,) = command.log_root.rglob("last_*.pth")
    state = torch.load(path, weights_only=False)["model"]
    path.unlink()
    return state


def test_own_launcher_torchrun_and_two_nodes_give_the_same_parameters(command):
    run = command(*RUN, "--nproc-per-node", "2")
    assert run.returncode == 0, run.stderr
    own = parameters(command)

    torchrun = ("torch.distributed.run", "--nproc_per_node", "2", "-m", "rltrain")
    joined = command(*RUN, launcher=torchrun)
    assert joined.returncode == 0, joined.stderr
    assert {k: v.tolist() for k, v in parameters(command).items()} == {
        k: v.tolist() for k, v in own.items()
    }

    nodes = ["--nnodes", "2", "--nproc-per-node", "1", "--master-port", free_port()]
    second = command.start(*RUN, *nodes, "--node-rank", "1")
    first = command(*RUN, *nodes, "--node-rank", "0")
    assert first.returncode == 0, first.stderr
    assert command.finish(second).returncode == 0
    assert {k: v.tolist() for k, v in parameters(command).items()} == {
        k: v.tolist() for k, v in own.items()
    }


@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_where_world_size_counts_nodes_a_run_of_one_process_trains_alone(command, library):
    run = command("--library", library, *RUN[3:], WORLD_SIZE="4", RANK="2")
    assert run.returncode == 0, run.stderr
    assert "1 rank " in run.stdout


def test_torchrun_without_distributed_is_refused(command):
    torchrun = ("torch.distributed.run", "--nproc_per_node", "2", "-m", "rltrain")
    run = command("--max-iterations", "1", launcher=torchrun)
    assert run.returncode != 0
    assert "Add --distributed" in run.stderr
    assert not list(command.log_root.rglob("manifest.json"))


def test_ranks_with_different_options_are_told_apart(command):
    nodes = ["--nnodes", "2", "--nproc-per-node", "1", "--master-port", free_port()]
    second = command.start(*RUN, *nodes, "--node-rank", "1", "agent.params.config.gamma=0.5")
    first = command(*RUN, *nodes, "--node-rank", "0")
    other = command.finish(second)
    assert {first.returncode, other.returncode} == {2}
    assert "agent.params.config.gamma is 0.99 on rank 0 and 0.5 on rank 1" in first.stderr
    assert "Traceback" not in first.stderr + other.stderr
