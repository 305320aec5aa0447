"""Runs across two machines with addresses and host names of their own."""

from __future__ import annotations

import json
import os
import signal
import time

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
    words = ("--master-addr", first.address, *words, *NODES)
    other = command.start(*words, "--node-rank", "1", before=second.inside)
    run = command(*words, "--node-rank", "0", before=first.inside)
    return run, command.finish(other)


@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_torch_trains_across_machines(command, machines, library):
    runs = on_both(command, machines, "--library", library, "--nproc-per-node", "1")
    for run in runs:
        assert run.returncode == 0, run.stderr
    assert "2 ranks on cpu, 2 nodes" in runs[0].stdout


@pytest.mark.parametrize("master", ["name", "ipv6"])
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_machines_meet_by_name_and_by_ipv6(probe, machines, framework, master):
    """The first machine's own name is a loopback address there, as on Debian."""
    where = machines[0].host if master == "name" else machines[0].ipv6
    words = ("--library", "averager", "--task", "Idle-v0", "--framework", framework)
    words = (*words, "--device", "cpu", "--nproc-per-node", "1", "--master-addr", where)
    for run in on_both(probe, machines, *words):
        assert run.returncode == 0, run.stderr


def test_machines_number_themselves(command, machines):
    """By torch's c10d rendezvous."""
    words = ("--library", "rsl_rl", "--num-envs", "32", "--max-iterations", "2", "--rdzv-id", "x")
    words = (*words, "--distributed", "--nnodes", "2", "--nproc-per-node", "1")
    words = (*words, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{machines[0].address}:29400")
    other = command.start(*words, before=machines[1].inside)
    runs = [command(*words, before=machines[0].inside), command.finish(other)]
    for run in runs:
        assert run.returncode == 0, run.stderr
    assert any("2 ranks on cpu, 2 nodes" in run.stdout for run in runs)


def test_jax_trains_across_machines(probe, machines):
    words = ("--library", "averager", "--task", "Idle-v0", "--framework", "jax", "--device", "cpu")
    for run in on_both(probe, machines, *words, "--nproc-per-node", "2"):
        assert run.returncode == 0, run.stderr
    for rank in range(4):
        world = json.loads((probe.folder / f"seen_{rank}.json").read_text())["world"]
        assert (world["rank"], world["node_rank"], world["num_nodes"]) == (rank, rank // 2, 2)


def test_the_first_machine_has_the_logs_of_all_ranks(command, machines):
    """Each has a disk of its own."""
    first, second = machines
    words = ("--library", "rsl_rl", "--nproc-per-node", "1", *NODES, "--master-addr", first.address)
    command.log_root.mkdir()
    own_disk = second.with_own(command.log_root)
    other = command.start(*words, "--node-rank", "1", before=own_disk)
    run = command(*words, "--node-rank", "0", before=first.inside)
    assert run.returncode == 0, run.stderr
    assert command.finish(other).returncode == 0
    logs = sorted((run.folder / "logs").iterdir())
    assert [path.name for path in logs] == ["rank_0.log", "rank_1.log"]
    assert "ELU(" in logs[1].read_text()


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


LONG = ("--distributed", "--nnodes", "2", "--nproc-per-node", "1", "--max-iterations", "100000")
TORCH = ("--task", "probe_plugin:Slow-v0", "--num-envs", "2")
JAX = ("--library", "averager", "--task", "Idle-v0", "--framework", "jax", "--device", "cpu")
LIMIT = 30
"""Seconds in which a lost node must have ended the others."""


@pytest.fixture(params=["torch", "jax"])
def running(request, machines):
    """A run on both machines, whose two ranks train: its command, and each machine's process."""
    command = request.getfixturevalue("command" if request.param == "torch" else "probe")
    words = (*(TORCH if request.param == "torch" else JAX), *LONG)
    processes = [
        command.start(
            *(*words, "--master-addr", machines[0].address, "--node-rank", str(number)),
            before=machine.inside,
        )
        for number, machine in enumerate(machines)
    ]
    command.ranks(processes[0], 2)
    time.sleep(2)
    return command, processes


def test_a_killed_machine_is_named(running):
    command, (first, second) = running
    for pid in command.members(second):
        os.kill(pid, signal.SIGKILL)
    run = command.finish(first, timeout=LIMIT)
    assert run.returncode == 1
    assert run.stderr.rstrip().endswith(
        "Node 1 (machine1) is gone: its launcher was killed, or the machine stopped."
    )
    assert command.all_gone(first)


def test_a_cut_link_ends_both_machines(running, machines):
    command, (first, second) = running
    machines[0].cut_link()
    try:
        runs = [command.finish(process, timeout=LIMIT) for process in (first, second)]
    finally:
        machines[0].join_link()
    assert [run.returncode for run in runs] == [1, 1]
    assert "Node 1 (machine1) does not answer any more: " in runs[0].stderr
    assert "Node 0 (machine0) does not answer any more: " in runs[1].stderr


def test_a_failure_on_another_machine_is_shown_whole(command, machines):
    words = (*TORCH, *LONG, "--master-addr", machines[0].address)
    other = command.start(*words, "--node-rank", "1", before=machines[1].inside, PLANTED="1:100")
    run = command(*words, "--node-rank", "0", before=machines[0].inside)
    assert run.returncode == 1
    assert "Node 1 (machine1) failed. Rank 1 failed." in run.stderr
    assert run.stderr.rstrip().endswith("ValueError: planted in one rank's environment")
    assert command.finish(other).returncode == 1


def test_an_option_that_all_ranks_refuse_is_shown_on_each_machine(command, machines):
    words = (*TORCH, "--nproc-per-node", "1", "env.no_such_option=1")
    for run in on_both(command, machines, *words):
        assert run.returncode == 2
        assert "no_such_option" in run.stderr
        assert "Traceback" not in run.stderr


def test_the_doctor_names_a_missing_node(command, machines):
    words = ("doctor", "--nnodes", "2", "--node-rank", "0", "--master-addr", machines[0].address)
    run = command(*words, "--timeout", "20", before=machines[0].inside)
    assert run.returncode == 1
    assert "Node 1 of 2 did not arrive within 14 s (--join-timeout)." in run.stdout


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (None, "Node 1 of 2 did not arrive within 3 s (--join-timeout)."),
        (("--master-port", "29501"), "Node 1 of 2 did not arrive within 3 s (--join-timeout)."),
        (("--nnodes", "3"), "Node 1 (machine1) is one of 3, and node 0 (machine0) is one of 2."),
        (("--node-rank", "0"), "did not arrive within 3 s"),
        (
            ("--library", "skrl", "--framework", "jax"),
            "Node 1 (machine1) has --framework jax, and node 0 (machine0) has torch.",
        ),
    ],
)
def test_nodes_that_do_not_meet_say_why(command, machines, changed, message):
    words = (*TORCH, *LONG, "--master-addr", machines[0].address, "--join-timeout", "3")
    other = None
    if changed is not None:
        other = command.start(*words, "--node-rank", "1", *changed, before=machines[1].inside)
    run = command(*words, "--node-rank", "0", before=machines[0].inside)
    assert run.returncode == 2
    assert f"did not find each other at {machines[0].address}:29500. " in run.stderr
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    if other is not None:
        assert command.finish(other).returncode == 2
