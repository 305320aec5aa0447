"""What is asked of Ray, and which error is shown. Real runs: test_ray_cluster.py."""

from __future__ import annotations

import pytest

from rltrain.config import Placement
from rltrain.errors import RankFailed, UsageError
from rltrain.plan.resolve import make_plan
from rltrain.plan.table import plan_table

pytest.importorskip("ray")

from ray.exceptions import ActorDiedError, RayTaskError

from rltrain_ray.launcher import error_of, error_to_show, request
from rltrain_ray.options import RayOptions

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
    plan = make_plan({**RUN, "num_gpus": 4}, {})
    assert "4 on each of 2 nodes, which ray starts" in plan_table(plan)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--launcher ray: say how many ranks each node has"),
        ({"nproc_per_node": 2, "ray.cpus_per_rank": -1}, "ray: cpus_per_rank=-1 must not be"),
        ({"nproc_per_node": 2, "gpu_ids": [0]}, "--gpu-ids: the launcher ray starts the ranks on"),
        ({"nproc_per_node": 2, "master_addr": "a"}, "the launcher ray does not have it"),
    ],
)
def test_what_cannot_be_started_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        make_plan({**RUN, **options}, {})


def test_the_error_of_the_node_is_the_error_of_the_run():
    failed = error_of(of_node(RankFailed("Rank 3 failed.", rank=3, exit_code=7)), 1)
    assert (str(failed), failed.rank, failed.exit_code) == ("Rank 3 failed.", 3, 7)
    assert isinstance(error_of(of_node(UsageError("--num-envs 0")), 0), UsageError)


def test_what_a_node_says_goes_before_what_ray_says_of_a_lost_one():
    lost = error_of(ActorDiedError(), 0)
    assert str(lost).startswith("Ray lost node 0, or its actor failed.")
    named = error_of(of_node(RankFailed("Node 0 (a) is gone.")), 1)
    assert error_to_show({0: lost, 1: named}) is named
    assert error_to_show({0: lost}) is lost
