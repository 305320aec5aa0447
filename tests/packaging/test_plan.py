"""The plan of a run with the real plugins: what jax lacks; `shards/refused.py` has libraries'."""

from __future__ import annotations

import pytest
from cluster_variables import SKRL
from helpers import refusal
from messages import check_said, says

from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain.types import World

JAX = {"library": "skrl", "framework": "jax", "device": "cpu"}


@pytest.fixture
def jax_plan(tmp_path):

    def make(environ, **options):
        options = {**JAX, "distributed": True, "log_root": str(tmp_path), **options}
        return make_plan({k: v for k, v in options.items() if v is not None}, environ)

    return make


def test_jax_has_its_own_defaults(jax_plan):
    made = jax_plan({}, nproc_per_node=2, master_addr="::1", master_port=5)
    assert (made.config.backend, made.config.grad_sync) == ("jax", "tree")
    assert (made.config.launcher, made.world) == ("processes", None)
    assert (made.config.master_addr, made.config.master_port) == ("::1", 5)


def test_started_ranks_without_distributed_are_refused(jax_plan):
    with says(UsageError):
        jax_plan(SKRL, distributed=None)
    alone = jax_plan(SKRL, distributed=None, cluster="none")
    assert alone.world == World(device="cpu")
    assert jax_plan(SKRL).world == World(1, 1, 0, 2, 2, 1, "cpu")


@pytest.mark.parametrize(
    "options",
    [
        {"grad_sync": "flat"},
        {"max_restarts": 1, "nnodes": 2},
        {"backend": "gloo"},
        {"no_plugins": ["jax"]},
    ],
)
def test_options_that_jax_lacks_are_refused(jax_plan, options):
    check_said(refusal(jax_plan, {}, nproc_per_node=2, **options))


def test_on_one_node_every_launcher_has_restarts(jax_plan):
    assert jax_plan({}, nproc_per_node=2, max_restarts=3).config.max_restarts == 3


def test_without_its_plugin_jax_says_what_to_install(jax_plan):
    with says(UsageError):
        jax_plan({}, no_plugins=["jax"])


def test_the_installed_writers_are_the_default(stub):
    options = {name: value for name, value in stub.OPTIONS.items() if name != "writers"}
    assert make_plan(options, {}).config.writers == ("console", "tensorboard")


def test_variables_that_count_nodes_are_not_joined(stub):
    def plan(environ, **options):
        return make_plan({**stub.OPTIONS, **options}, environ)

    variables = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "node-0"}
    assert plan(variables).world == World(device="cpu")
    made = plan(variables, distributed=True)
    assert made.world is None
    assert (made.config.nnodes, made.config.node_rank) == (4, 0)
    assert made.config.master_addr == "node-0"
    flags = plan(variables, distributed=True, nnodes=2, node_rank=1, master_addr="me").config
    assert (flags.nnodes, flags.node_rank, flags.master_addr) == (2, 1, "me")


def test_a_suite_of_another_framework_is_refused_with_what_works(site, stub):
    site.install(
        "jax-suite",
        """
        from rltrain.hookspecs import hookimpl
        from rltrain.specs import SuiteSpec
        from rltrain.types import TaskInfo

        def describe(task, env):
            return TaskInfo(task, "continuous") if task == "Program-v0" else None

        @hookimpl
        def rltrain_provides():
            facts = {"frameworks": ("jax",), "describe": describe, "tasks": list}
            return [SuiteSpec(name="programs", factory="stub_parts:StubSuite", **facts)]
        """,
    )
    check_said(refusal(make_plan, {**stub.OPTIONS, "task": "Program-v0"}, {}))
