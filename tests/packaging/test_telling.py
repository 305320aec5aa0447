"""The others of a run are told why one does not start, only as long as they wait for it."""

from __future__ import annotations

import pytest

from rltrain.cli.main import main
from rltrain.errors import UsageError
from rltrain.nodes.meeting import begin_meeting
from rltrain.nodes.telling import telling_others

MEET = ("--distributed", "--nnodes", "3", "--master-addr", "10.0.0.1")
NODES = {"distributed": True, "nnodes": "3", "master_addr": "10.0.0.1", "framework": "torch"}


@pytest.fixture
def told(monkeypatch):
    """What is told, in place of telling it."""
    calls = []

    class Meeting:
        def __init__(self, member, host, port, patience, refused):
            calls.append((member, host, port, refused, patience))

        def hold(self):
            pass

    monkeypatch.setattr("rltrain.nodes.meeting._Meeting", Meeting)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_STEP_NODELIST", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    return calls


def fail(options, before=lambda: None):
    def start():
        before()
        raise UsageError("no GPU for hunter22")

    with pytest.raises(UsageError), telling_others(lambda: options):
        start()


def test_a_node_tells_number_0_and_hides_secrets(told):
    fail({**NODES, "node_rank": "2", "wandb": {"api_key": "hunter22"}})
    ((member, host, port, words, _),) = told
    assert (member.kind, member.number, member.count) == ("node", 2, 3)
    assert (host, port) == ("10.0.0.1", 29500)
    assert words.endswith(" does not start: no GPU for (hidden)")


@pytest.mark.parametrize("wrong", [{"launcher": "elsatic"}, {"backend": "glooo"}])
def test_others_wait_by_the_usual_way_where_the_name_of_one_is_wrong(told, wrong):
    fail({**NODES, "node_rank": "2", **wrong})
    assert len(told) == 1


def test_a_rank_that_something_else_started_tells_rank_0(told, monkeypatch):
    rank = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a"}
    for name, value in {**rank, "MASTER_PORT": "5000"}.items():
        monkeypatch.setenv(name, value)
    fail({"distributed": True})
    ((member, host, port, _, patience),) = told
    assert (str(member.kind), member.number, member.count) == ("rank", 1, 4)
    assert (host, port, patience) == ("a", 5000, 60)
    told.clear()
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")  # torchrun ends the others.
    fail({"distributed": True})
    assert not told


@pytest.mark.parametrize(("backend", "times"), [("gloo", 1), ("mpi", 0)])
def test_ranks_are_told_if_those_of_the_backend_meet(told, monkeypatch, backend, times):
    for name, value in {"RANK": "1", "SIZE": "2", "LOCAL_RANK": "1", "LOCAL_SIZE": "2"}.items():
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    fail({"distributed": True, "backend": backend, "master_addr": "10.0.0.1"})
    assert len(told) == times


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"distributed": True},
        {**NODES, "launcher": "slurm"},
        {**NODES, "nnodes": "many"},
        {**NODES, "node_rank": "2", "launcher": "mpi"},
    ],
)
def test_nobody_is_told_where_nobody_waits(told, options):
    fail(options)
    assert not told


def test_a_command_tells_by_its_flags_and_one_that_only_plans_does_not(told, capsys):
    words = ["train", *MEET, "--node_rank=2", "--library", "rl_gams"]
    assert main([*words, "--dry-run"]) == 2
    assert not told
    assert main(words) == 2
    ((member, host, *_),) = told
    assert (member.number, host) == (2, "10.0.0.1")
    assert capsys.readouterr().err.count("rl_gams") == 2


def test_an_unknown_flag_is_told_by_the_known_ones(told):
    assert main(["--distributed", "--nnodes=3", "--node-rank=2", "--nun-envs", "4"]) == 2
    ((member, *_, text, _),) = told
    assert member.number == 2
    assert "Unknown argument '--nun-envs'. Did you mean '--num-envs'?" in text


def test_nobody_is_told_once_they_have_met(told):
    fail({**NODES, "node_rank": "2"}, begin_meeting)
    assert not told
