"""Where nothing declares a default, and where two answers contradict each other, a run says so."""

from __future__ import annotations

import pytest

from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.placement.cluster import find_cluster
from rltrain.plan.resolve import make_plan
from rltrain.plugins.registry import discover

NO_DEFAULT = """
from rltrain import hookimpl
from rltrain.specs import *

@hookimpl
def rltrain_provides():
    parts = "stub_parts:"
    return [
        BackendSpec(
            name="alone", factory=parts + "StubBackend", framework="numpy",
            device="cpu", launcher="l",
        ),
        LauncherSpec(name="l", factory=parts + "StubLauncher", frameworks=("numpy",)),
        GradientSyncSpec(name="s1", factory=parts + "StubSync", frameworks=("numpy",)),
        GradientSyncSpec(name="s2", factory=parts + "StubSync", frameworks=("numpy",)),
        LibrarySpec(
            name="n", factory=parts + "StubLibrary", frameworks=("numpy",), algorithms=("PPO",),
            default_agent=lambda task, algorithm: {"a": 1}, schema=OptionSchema(required=("a",)),
        ),
        SuiteSpec(
            name="numpies", factory=parts + "StubSuite", frameworks=("numpy",),
            tasks=lambda: ["Numpy-v0"],
            describe=lambda task, env: make() if task == "Numpy-v0" else None,
        ),
    ]

def make():
    from rltrain.types import TaskInfo
    return TaskInfo("Numpy-v0", "continuous")
"""


def test_a_framework_without_a_declared_gradient_sync_has_no_default(site, tmp_path):
    site.install("rltrain-alone", NO_DEFAULT, point="alone")
    options = {"library": "n", "framework": "numpy", "task": "Numpy-v0", "log_root": str(tmp_path)}
    with pytest.raises(UsageError, match=r"--grad-sync: .*numpy.* Give --grad-sync s1 or s2"):
        make_plan(options, {})
    assert make_plan({**options, "grad_sync": "s2"}, {}).config.grad_sync == "s2"


CLUSTER = """
import dataclasses

from rltrain import hookimpl
from rltrain.builtin.clusters import CLUSTERS
from rltrain.specs import ClusterSpec

open_mpi = {spec.name: spec.find for spec in CLUSTERS}["open-mpi"]

def find(environ):
    return dataclasses.replace(open_mpi(environ), master_addr=environ["AAA"] or None)

@hookimpl
def rltrain_provides():
    return [ClusterSpec(name="aaa", order=10, find=find, variables=("AAA",))]
"""


def test_two_clusters_that_agree_on_the_rank_must_agree_on_where_ranks_meet(site):
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    started = {f"OMPI_COMM_WORLD_{name}": x for name, x in zip(names, "1212", strict=True)}
    site.install("rltrain-aaa", CLUSTER, point="aaa")
    requested = RunOptions(distributed=True)
    spec, place = find_cluster(requested, discover(), {**started, "AAA": ""})
    assert (spec.name, place.master_addr) == ("open-mpi", "127.0.0.1")
    with pytest.raises(UsageError, match=r"aaa .*open-mpi .*contradict each other. Choose one"):
        find_cluster(requested, discover(), {**started, "AAA": "10.0.0.1"})
