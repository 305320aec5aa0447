"""What is asked of Ray, and which error is shown. Real runs: test_ray_cluster.py."""

from __future__ import annotations

import os
import signal
import socket

import pytest
from messages import says

from rltrain.config import Placement
from rltrain.errors import PeerLost, RankFailed, UsageError
from rltrain.nodes import caught_signals
from rltrain.plan.resolve import make_plan
from rltrain.plan.table import plan_table

pytest.importorskip("ray")

from ray.exceptions import ActorDiedError, RayTaskError

from rltrain_ray import launcher
from rltrain_ray.cluster import Node, address_of, error_of, error_to_show
from rltrain_ray.launcher import options_of, request
from rltrain_ray.plugin import RayOptions

RUN = {"library": "rsl_rl", "launcher": "ray", "nnodes": 2, "writers": ["console"]}


def of_node(error: Exception) -> RayTaskError:
    return RayTaskError("run", "traceback", error).as_instanceof_cause()


@pytest.mark.parametrize(
    ("kind", "cpus", "expected"),
    [
        ("cpu", 1, {"CPU": 4.0}),
        ("cuda", 2, {"CPU": 8.0, "GPU": 4.0}),
        ("cuda", 0, {"GPU": 4.0}),
    ],
)
def test_a_node_asks_for_its_ranks(kind, cpus, expected):
    config = Placement(backend="any", device_kind=kind, nproc_per_node=4)
    assert request(config, RayOptions(cpus_per_rank=cpus)) == expected


def test_a_run_on_gpus_is_planned_where_there_are_none():
    plan = make_plan({**RUN, "nproc_per_node": 4, "device": "cuda"}, {})
    assert "4 on each of 2 nodes, which ray starts" in plan_table(plan)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nproc_per_node": 2, "ray.cpus_per_rank": -1},
        {"nproc_per_node": 2, "gpu_ids": [0]},
        {"nproc_per_node": 2, "master_addr": "a"},
    ],
)
def test_what_cannot_be_started_is_refused(options):
    with says(UsageError):
        make_plan({**RUN, **options}, {})


def test_the_error_of_the_node_is_the_error_of_the_run():
    failed = error_of(of_node(RankFailed("Rank 3 failed.", rank=3, exit_code=7)), 1)
    assert (str(failed), failed.rank, failed.exit_code) == ("Rank 3 failed.", 3, 7)
    assert isinstance(error_of(of_node(UsageError("--num-envs 0")), 0), UsageError)


def failing(error: Exception):
    def work(options):
        raise error

    return work


def test_a_failed_rank_is_reported_with_its_node_and_keeps_its_status():
    work = failing(RankFailed("Rank 1 was killed by SIGKILL.", rank=1, exit_code=137))
    with pytest.raises(RankFailed, match=r"^Node 1 \(.+\) failed. Rank 1 was killed") as raised:
        Node().run(work, {"node_rank": 1}, 1)
    assert (raised.value.rank, raised.value.exit_code) == (1, 137)


def test_the_only_node_needs_no_name():
    with says(RankFailed):
        Node().run(failing(RankFailed("Rank 1 failed.", rank=1)), {}, 1)


@pytest.mark.parametrize(
    ("culprit", "status"),
    [(RankFailed("killed", rank=1, exit_code=137), 137), (UsageError("refused"), 2)],
)
@pytest.mark.parametrize("other", [RankFailed("Node 1 failed."), PeerLost("lost", rank=0)])
def test_the_status_is_that_of_the_node_that_failed(culprit, status, other):
    # Node 0 notices, and may end first.
    assert error_to_show({0: other, 1: culprit}).exit_code == status


def test_of_two_refusals_the_first_to_come_is_the_cause():
    first, second = UsageError("no such folder"), UsageError("node 1 did not arrive")
    assert error_to_show({1: first, 0: second}) is first


def test_nodes_use_the_devices_that_are_reserved():
    # A node with GPUs would else choose them, although Ray may have given them to others.
    config = Placement(backend="gloo", nproc_per_node=2)
    assert options_of(config, 0, None) == {"cluster": "none", "backend": "gloo"}
    assert options_of(config, 1, ("10.0.0.1", 7)) == {
        "cluster": "none",
        "backend": "gloo",
        "master_addr": "10.0.0.1",
        "master_port": 7,
        "node_rank": 1,
    }


def test_an_address_is_the_option_or_the_variable():
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        assert address_of(RayOptions(address=there), {"RAY_ADDRESS": "other:1"}) == there
        assert address_of(RayOptions(), {"RAY_ADDRESS": there}) == there
    assert address_of(RayOptions(address="local"), {}) == "local"
    assert address_of(RayOptions(), {}) == "auto"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://head:10001"])
def test_an_address_that_cannot_work_is_refused_at_once(address):
    with says(UsageError):
        address_of(RayOptions(address=address), {})
    with says(UsageError):
        address_of(RayOptions(), {"RAY_ADDRESS": address})


def test_the_first_signal_is_passed_on_and_the_next_one_ends_the_run(monkeypatch):
    def wait(calls, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return [], calls

    monkeypatch.setattr(launcher, "_SAME", 0.0)
    monkeypatch.setattr(launcher.ray, "wait", wait)
    asked: list[int] = []
    with caught_signals() as signals, says(RankFailed) as raised:
        launcher._wait(["call"], signals, asked.append)
    assert (asked, raised.value.exit_code) == ([signal.SIGTERM], 143)


@pytest.mark.parametrize(("asked", "may_restart"), [(False, True), (True, False)])
def test_a_run_that_was_asked_to_end_does_not_start_again(monkeypatch, asked, may_restart):
    def fail(call):
        raise of_node(RankFailed("Rank 3 failed.", rank=3))

    def wait(calls, **options):
        return calls, []

    monkeypatch.setattr(launcher.ray, "wait", wait)
    monkeypatch.setattr(launcher.ray, "get", fail)
    with caught_signals() as signals:
        if asked:
            os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises(RankFailed) as raised:
            launcher._wait(["call"], signals, lambda number: None)
    assert raised.value.may_restart is may_restart


def test_what_a_node_says_goes_before_what_ray_says_of_a_lost_one():
    lost = error_of(ActorDiedError(), 0)
    assert str(lost).startswith("Ray lost node 0, or its actor failed.")
    named = error_of(of_node(RankFailed("Node 0 (a) is gone.")), 1)
    assert error_to_show({0: lost, 1: named}) is named
    assert error_to_show({0: lost}) is lost
