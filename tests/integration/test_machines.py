"""Runs across machines with addresses and host names of their own."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from machines import connected_machines, missing

pytestmark = pytest.mark.slow

SHORT = ("--distributed", "--num-envs", "32", "--max-iterations", "2")
LONG = ("--distributed", "--nproc-per-node", "1", "--max-iterations", "100000")
TORCH = ("--task", "probe_plugin:Slow-v0", "--num-envs", "2")
JAX = ("--library", "averager", "--task", "Idle-v0", "--framework", "jax", "--device", "cpu")
LIMIT = 30
"""Seconds in which a lost node must have ended the others."""

TELLS = '''
"""An observer that tells which interfaces gloo has and NCCL would have."""
import json, os, pathlib
from rltrain import hookimpl
from rltrain.nodes import choose_nccl_interface
from rltrain.specs import ObserverSpec


@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="tells", factory="tells_plugin:Tells")]


class Tells:
    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session):
        environ = {name: os.environ[name] for name in os.environ if name.endswith("_IFNAME")}
        choose_nccl_interface(environ, session.world, os.environ["MASTER_ADDR"])
        path = pathlib.Path(os.environ["PROBE_FOLDER"]) / f"{session.world.rank}.json"
        path.write_text(json.dumps(environ))
        return (yield)
'''


@pytest.fixture(scope="module")
def three():
    why = missing()
    if why is not None:
        pytest.skip(why)
    with connected_machines(3) as made:
        yield made


@pytest.fixture(autouse=True)
def _share_cores(monkeypatch):
    """Each machine believes that it has all cores."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def machines(three):
    return three[:2]


def start_on(command, machines, *words, **environ):
    nodes = ("--nnodes", str(len(machines)), "--master-addr", machines[0].address)
    return [
        command.start(*nodes, *words, "--node-rank", str(n), before=machine.inside, **environ)
        for n, machine in enumerate(machines)
    ]


def run_on(command, machines, *words, **more):
    return [command.finish(each) for each in start_on(command, machines, *words, **more)]


def assert_ended_well(runs):
    for run in runs:
        assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(("library", "count"), [("rl_games", 3), ("skrl", 2)])
def test_torch_trains_across_machines(command, three, library, count):
    runs = run_on(command, three[:count], *SHORT, "--library", library, "--nproc-per-node", "1")
    assert_ended_well(runs)
    assert f"{count} ranks on cpu, {count} nodes" in runs[0].stdout


@pytest.mark.parametrize("master", ["name", "ipv6"])
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_machines_meet_by_name_and_by_ipv6(probe, machines, framework, master):
    """The first machine's own name is a loopback address there, as on Debian."""
    where = machines[0].host if master == "name" else machines[0].ipv6
    words = ("--library", "averager", "--task", "Idle-v0", "--framework", framework)
    words = (*words, "--device", "cpu", "--nproc-per-node", "1", "--master-addr", where)
    assert_ended_well(run_on(probe, machines, *words, *SHORT))


@pytest.mark.parametrize("own", [{}, {"NCCL_SOCKET_IFNAME": "eth"}], ids=["ours", "the user's"])
def test_ranks_use_the_interface_that_leads_to_the_master(command, machines, own):
    """The first machine's own name is a loopback address there."""
    command.install("tells_plugin", TELLS)
    words = ("--library", "rsl_rl", "--nproc-per-node", "1", "--observer", "tells")
    words = (*words, "--master-addr", machines[0].host)
    assert_ended_well(run_on(command, machines, *SHORT, *words, **own))
    for rank in range(2):
        told = json.loads((command.folder / f"{rank}.json").read_text())
        assert told == {"GLOO_SOCKET_IFNAME": "cable", "NCCL_SOCKET_IFNAME": "=cable"} | own


def test_machines_number_themselves(command, machines):
    """torchrun starts the ranks, by its c10d rendezvous."""
    words = ("--library", "rsl_rl", "--num-envs", "32", "--max-iterations", "2", "--rdzv-id", "x")
    words = (*words, "--distributed", "--nnodes", "1:2", "--nproc-per-node", "1")
    words = (*words, "--max-restarts", "1", "--rdzv-endpoint", f"{machines[0].address}:29400")
    other = command.start(*words, before=machines[1].inside)
    runs = [command(*words, before=machines[0].inside), command.finish(other)]
    assert_ended_well(runs)
    assert any("2 ranks on cpu, 2 nodes" in run.stdout for run in runs)


def test_jax_trains_across_machines(probe, three):
    assert_ended_well(run_on(probe, three, *SHORT, *JAX, "--nproc-per-node", "2"))
    for rank in range(6):
        world = json.loads((probe.folder / f"seen_{rank}.json").read_text())["world"]
        assert (world["rank"], world["node_rank"], world["num_nodes"]) == (rank, rank // 2, 3)


@pytest.fixture(params=["torch", "jax"])
def trained(request):
    """Starts runs of a framework: the command, and the words that choose a long run."""
    if request.param == "torch":
        return request.getfixturevalue("command"), (*TORCH, *LONG)
    return request.getfixturevalue("probe"), (*JAX, *LONG)


@pytest.fixture
def running(trained, three):
    """A run on three machines, whose ranks train: its command, and each machine's process."""
    command, words = trained
    processes = start_on(command, three, *words)
    command.ranks(processes[0], 3)
    time.sleep(2)
    return command, processes


def test_a_killed_machine_is_named(running):
    command, (*others, third) = running
    for pid in command.members(third):
        os.kill(pid, signal.SIGKILL)
    runs = [command.finish(process, timeout=LIMIT) for process in others]
    for run in runs:
        assert run.returncode == 1
        assert run.stderr.rstrip().endswith(
            "Node 2 (machine2) is gone: its launcher was killed, or the machine stopped."
        )
    assert "Node 1 (machine1)" not in runs[0].stderr
    assert all(command.all_gone(process) for process in others)


def test_a_cut_link_ends_all_machines(running, three):
    command, processes = running
    three[2].cut_link()
    try:
        runs = [command.finish(process, timeout=LIMIT) for process in processes]
    finally:
        three[2].join_link()
    assert [run.returncode for run in runs] == [1, 1, 1]
    assert "Node 2 (machine2) has not answered for 15 s." in runs[0].stderr
    assert "Node 2 (machine2) has not answered for 15 s." in runs[1].stderr
    assert "Node 0 (machine0) has not answered for 15 s." in runs[2].stderr


def test_a_failure_on_another_machine_is_shown_whole(trained, machines):
    command, words = trained
    how = "1:100:raise" if "jax" in words else "1:100"
    run, other = run_on(command, machines, *words, PLANTED=how)
    assert (run.returncode, other.returncode) == (1, 1)
    assert "Node 1 (machine1) failed. Rank 1 failed." in run.stderr
    assert "Traceback (most recent call last)" in run.stderr
    assert "ValueError: planted in one rank" in run.stderr.rstrip().splitlines()[-1]


def test_a_rank_that_hangs_is_named_on_all_machines(command, machines):
    words = (*TORCH, *LONG, "--nproc-per-node", "1", "--hang-timeout", "3")
    run, other = run_on(command, machines, *words, PLANTED="1:400:hang")
    assert (run.returncode, other.returncode) == (1, 1)
    assert "rltrain: Rank 1 hangs, without progress for" in other.stderr
    assert "Node 1 (machine1) failed. Rank 1 hangs, without progress for" in run.stderr
    assert "rank 1 sleeps while stepping the environment" in run.stderr


def test_the_doctor_names_a_missing_node(command, machines):
    words = ("doctor", "--nnodes", "2", "--node-rank", "0", "--master-addr", machines[0].address)
    run = command(*words, "--timeout", "20", before=machines[0].inside)
    assert run.returncode == 1
    # Where the table breaks its lines depends on the length of the address.
    said = " ".join(run.stdout.split())
    assert "Node 1 of 2 did not arrive within 14 s (of --timeout 20)." in said


@pytest.mark.parametrize("other", [(), ("--nnodes", "3")])
def test_nodes_that_do_not_meet_say_why(command, machines, other):
    words = (*TORCH, *LONG, "--join-timeout", "3", "--master-addr", machines[0].address)
    begun = [("--nnodes", "2", "--node-rank", "0")]
    begun += [(*other, "--node-rank", "1")] if other else []
    runs = [
        command.start(*words, *more, before=machine.inside)
        for more, machine in zip(begun, machines, strict=False)
    ]
    first, *_ = ends = [command.finish(run) for run in runs]
    assert {run.returncode for run in ends} == {2}
    assert f"did not find each other at {machines[0].address}:29500. " in first.stderr
    missing = "Node 1 of 2 did not arrive within 3 s (--join-timeout)."
    differs = "Node 1 (machine1) is one of 3, and node 0 (machine0) is one of 2."
    assert (differs if other else missing) in first.stderr
    assert "Traceback" not in first.stderr
