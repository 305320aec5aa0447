"""The run does not depend on how its ranks are started, and the doctor measures them."""

from __future__ import annotations

import json
import os
import socket

import pytest
import torch
from helpers import free_port

pytestmark = pytest.mark.slow

RUN = ["--library", "rl_games", "--distributed", "--num-envs", "32", "--max-iterations", "2"]
RUN += ["--seed", "3"]


TORCHRUN = ("torch.distributed.run", "--nproc_per_node", "2", "-m", "rltrain")
STARTED_BY = {
    "rltrain": (["--nproc-per-node", "2"], ()),
    "mpi": (["--nproc-per-node", "2", "--backend", "mpi"], ()),
    # By default, torchrun of older torch takes a port that another run may have.
    "torchrun": ([], ("torch.distributed.run", "--standalone", *TORCHRUN[1:])),
}

ENDED_WITH: dict[str, dict[str, torch.Tensor]] = {}
"""By library, the parameters with which the first launcher's run ended."""


def check_parameters(command, library):
    for rank in (0, 1):
        state = torch.load(command.folder / f"state_{rank}.pt", weights_only=True)
        others = ENDED_WITH.setdefault(library, state)
        assert len(state) >= 5
        assert any("mean" in name for name in state), "the normalizers are models too"
        assert state.keys() == others.keys()
        assert all(torch.equal(value, others[name]) for name, value in state.items())


def check_folder(run, library):
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert (manifest["world_size"], manifest["seed"]) == (2, 3)
    assert manifest["versions"]["torch"]
    assert "--library" in manifest["command"]
    assert manifest["config"]["library"] == library
    assert manifest["config"]["agent"]
    seeds = manifest["seeds"]
    assert [row["rank"] for row in seeds] == [0, 1]
    assert seeds[0]["model"] == seeds[1]["model"]
    assert len({row[stream] for row in seeds for stream in ("environment", "learner")}) == 4
    assert len(list(run.folder.rglob("events.out.tfevents*"))) == 1
    assert sorted(path.name for path in run.folder.glob("logs/*")) == ["rank_0.log", "rank_1.log"]
    assert run.checkpoints()


@pytest.mark.slow(turns=1)
@pytest.mark.parametrize("launcher", STARTED_BY)
@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_parameters_do_not_depend_on_who_starts_the_ranks(command, library, launcher):
    if launcher == "mpi":
        pytest.importorskip("mpi4py")
    arguments, started_by = STARTED_BY[launcher]
    asked = ["--library", library, *RUN[2:], "--observer", "probe"]
    run = command(*asked, *arguments, launcher=started_by)
    assert run.returncode == 0, run.stderr
    check_parameters(command, library)
    if launcher == "rltrain":
        check_folder(run, library)
    if not started_by and len(os.sched_getaffinity(0)) > 1:
        bound = [(command.folder / f"cores_{rank}").read_text().split() for rank in (0, 1)]
        assert not set(bound[0]) & set(bound[1])


def two_nodes(command, *words, more=()):
    """Return the runs of two nodes with these words, the second one with more."""
    nodes = [*RUN, "--nnodes", "2", "--nproc-per-node", "1", "--master-port", str(free_port())]
    second = command.start(*nodes, "--node-rank", "1", *words, *more)
    return command(*nodes, "--node-rank", "0", *words), command.finish(second)


def two_tasks(command, *words, first=RUN):
    """Return the runs of two tasks of srun with these words, after others on the first one."""
    job = {
        "SLURM_JOB_ID": str(free_port()),  # The master's port comes from it.
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
    }
    second = command.start(*RUN, *words, **job, SLURM_PROCID="1", SLURM_LOCALID="1")
    run = command(*first, *words, **job, SLURM_PROCID="0", SLURM_LOCALID="0")
    return run, command.finish(second)


@pytest.mark.parametrize("started", [two_nodes, two_tasks])
def test_two_nodes_or_tasks_end_with_the_same_parameters_too(command, started):
    runs = started(command, "--observer", "probe")
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    check_parameters(command, "rl_games")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--no-such-flag"], "Unknown argument '--no-such-flag'."),
        (["--suite", "none"], "Unknown suite 'none'."),
    ],
)
def test_what_one_node_refuses_is_said_on_the_other(command, wrong, said):
    run, other = two_nodes(command, more=wrong)
    assert (run.returncode, other.returncode) == (2, 2)
    assert other.stderr.startswith(f"rltrain: {said}")
    assert f"rltrain: Node 1 ({socket.gethostname()}) does not start: {said}" in run.stderr


def test_what_one_task_of_srun_refuses_is_said_by_the_other(command):
    run, other = two_tasks(command, first=[*RUN[2:], "--library", "none"])
    assert (run.returncode, other.returncode) == (2, 2)
    assert f"Rank 0 ({socket.gethostname()}) does not start: Unknown library" in other.stderr


def test_ranks_with_different_options_are_refused(command):
    first, other = two_nodes(command, more=["agent.params.config.gamma=0.5"])
    assert {first.returncode, other.returncode} == {2}
    assert "agent.params.config.gamma is 0.99 on rank 0 and 0.5 on rank 1" in first.stderr
    assert "Traceback" not in first.stderr + other.stderr


def test_ranks_that_have_a_process_group_already_train_in_it(probe):
    """Ray Train creates it in each worker, and then calls the user's function."""
    script = probe.folder / "as_in_ray_train.py"
    script.write_text("""
import sys, rltrain, torch, torch.distributed as dist
dist.init_process_group("gloo")
rltrain.train(distributed=True, library="averager", task="Idle-v0", device="cpu",
              max_iterations=3, log_root=sys.argv[-1])
total = torch.ones(1)
dist.all_reduce(total)
assert total == 2, "the group is the user's, and stays"
dist.destroy_process_group()
""")
    torchrun = ("torch.distributed.run", "--nproc_per_node", "2", str(script))
    run = probe(launcher=torchrun)
    assert run.returncode == 0, run.stderr
    assert "2 ranks on cpu" in run.stdout
    assert len(list(run.log_root.rglob("manifest.json"))) == 1


@pytest.mark.parametrize("agent_has_the_store", [True, False])
def test_ranks_train_one_run_after_another(probe, agent_has_the_store):
    script = probe.folder / "sweep.py"
    script.write_text(f"""
import os, sys, rltrain
if not {agent_has_the_store}:  # As SLURM's tasks have it: rank 0 serves it.
    os.environ |= {{"TORCHELASTIC_USE_AGENT_STORE": "False", "MASTER_PORT": "{free_port()}"}}
for seed in range(4):
    done = rltrain.train(distributed=True, library="averager", task="Idle-v0", device="cpu",
                         backend="gloo", seed=seed, max_iterations=3, log_root=sys.argv[-1])
    assert done.iterations == 3, done
""")
    torchrun = ("torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script))
    run = probe(launcher=torchrun)
    assert run.returncode == 0, run.stderr
    assert len(list(run.log_root.rglob("manifest.json"))) == 4


# The doctor's


@pytest.mark.parametrize(
    ("words", "launcher", "how"),
    [
        (["--nproc-per-node", "2"], (), "2 on gloo, started by processes"),
        (["--framework", "jax", "--nproc-per-node", "2"], (), "2 on jax, started by processes"),
        ([], TORCHRUN, "2 on gloo, joined"),
    ],
    ids=["processes", "jax", "torchrun"],
)
def test_two_ranks_meet_and_are_measured(command, words, launcher, how):
    run = command("doctor", "--json", "--timeout", "120", *words, launcher=launcher)
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads(run.stdout)  # Printed once: one rank reports for its node.
    assert report["status"] == "ok"
    found = report["sections"]["ranks"][0]
    assert found["text"].startswith(how)
    assert [rank["right"] for rank in found["result"]["ranks"]] == [True, True]
    assert 0 < found["result"]["latency_ms"] < found["result"]["large_ms"]
