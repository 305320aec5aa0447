"""What is installed besides changes no plan: a default is declared, and never the first by name."""

from __future__ import annotations

import dataclasses

import pytest
from messages import says

from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain.plan.table import plan_table
from rltrain.plugins import exporters
from rltrain.plugins.manager import arrays_by_framework
from rltrain.specs import KINDS

FIRST = """
from rltrain import hookimpl
from rltrain.clusters import StartedNode
from rltrain.specs import *
from rltrain.types import TaskInfo

def agent(task, algorithm):
    return {{"a": 1}}

@hookimpl
def rltrain_provides():
    both = ("torch", "jax")
    named = dict(name="aaa", factory="{module}:count")
    return [
        *(
            BackendSpec(
                name=f"aaa{{framework}}-{{device}}", framework=framework,
                device=device, factory="stub_parts:StubBackend", arrays="stub_parts:StubExporter",
                exporter="stub_parts:StubExporter", launcher="aaa", grad_sync="aaa",
                count_devices="{module}:count", is_default={usual},
                joins_first=True, needs_master=False,
            )
            for framework in both for device in {devices}
        ),
        LibrarySpec(
            frameworks=both, algorithms=("PPO",), default_agent=agent,
            schema=OptionSchema(required=("a",)), **named,
        ),
        SuiteSpec(frameworks=both, describe=lambda task, env: None, tasks=lambda: [], **named),
        LauncherSpec(frameworks=both, **named),
        LauncherSpec(name="aab", factory="{module}:count", frameworks=both, starts_nodes=True),
        ClusterSpec(name="aaa", order=0, find=lambda environ: None, variables=("AAA",)),
        WriterSpec(**named),
        GradientSyncSpec(frameworks=both, **named),
        ObserverSpec(**named),
        CommandSpec(**named),
    ]

def count():
    return 4
"""

PLAIN = {
    "plain": {"library": "rsl_rl"},
    "ranks": {"library": "skrl", "distributed": True, "nproc_per_node": 2},
    "jax": {"library": "skrl", "framework": "jax", "distributed": True, "nproc_per_node": 2},
    "on the CPU": {"library": "rl_games", "device": "cpu", "distributed": True},
    "mpi": {"library": "rsl_rl", "backend": "mpi", "distributed": True, "nproc_per_node": 2},
}


def install_first(site, usual=False, devices=("cpu", "cuda", "tpu")):
    source = FIRST.format(usual=usual, devices=devices, module="counts_first")
    (site.path / "counts_first.py").write_text("def count():\n    return 4\n")
    site.install("rltrain-aaa", source, point="aaa")


@pytest.mark.parametrize("options", PLAIN.values(), ids=PLAIN)
def test_what_sorts_first_changes_no_plan(site, tmp_path, options):
    options = {**options, "log_root": str(tmp_path)}
    before = make_plan(options, {})
    install_first(site)
    after = make_plan(options, {})
    for kind in KINDS.values():
        assert after.registry.names(kind)[0].startswith("aaa"), kind
    assert dataclasses.asdict(after.config) == dataclasses.asdict(before.config)
    assert plan_table(after) == plan_table(before)
    own = after.config.backend
    for found in (before.registry, after.registry):
        assert {key: type(x).__module__ for key, x in arrays_by_framework(found, own).items()} == {
            "torch": "rltrain_torch.arrays",
            "jax": "rltrain_jax.arrays",
        }
        framework = after.config.framework
        assert type(exporters(found, own)[framework]).__module__ == f"rltrain_{framework}.exporter"


def test_two_usual_backends_of_one_device_are_refused_by_name(site, tmp_path):
    install_first(site, usual=True, devices=("cpu",))
    options = {"library": "rsl_rl", "log_root": str(tmp_path)}
    with says(UsageError):
        make_plan(options, {})
    assert make_plan({**options, "backend": "gloo"}, {}).config.grad_sync == "flat"


def test_two_usual_accelerators_that_are_both_there_are_refused_by_name(site, tmp_path):
    install_first(site, usual=True, devices=("npu", "tpu"))
    options = {"library": "rsl_rl", "log_root": str(tmp_path)}
    with says(UsageError):
        make_plan(options, {})
    assert make_plan({**options, "device": "tpu"}, {}).config.backend == "aaatorch-tpu"
