"""The plan of a run: every choice resolved, every refusal made, before any rank starts."""

from __future__ import annotations

import dataclasses

import pytest
import yaml
from helpers import refusal
from made_up_runs import made_state

from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.plan.files import check_run_name
from rltrain.plan.resolve import make_plan
from rltrain.plan.table import plan_table
from rltrain.storage.checkpoint import INDEX, save_with_state
from rltrain.storage.run_folder import create_run_folder
from rltrain.types import ArrayInfo, TaskInfo, World

TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}


@pytest.fixture
def plan(stub):
    """Plan a run of stubs on the CPU; None takes an option away."""

    def make(environ=None, **options):
        merged = {**stub.OPTIONS, **options}
        return make_plan({k: v for k, v in merged.items() if v is not None}, environ or {})

    return make


@pytest.fixture
def config(plan):
    return lambda environ=None, **options: plan(environ, **options).config


@pytest.fixture
def refused(plan):
    def refuse(environ=None, **options) -> str:
        return refusal(plan, environ, **options)

    return refuse


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setenv("STUB_GPUS", "2")


@pytest.mark.parametrize(
    ("option", "key", "value"),
    [
        ("num_envs", "learn.envs", 9),
        ("seed", "learn.base_seed", 5),
        ("checkpoint_interval", "learn.save", 7),
    ],
)
def test_an_option_of_the_run_that_the_library_has_too_is_taken(config, option, key, value):
    found = config(agent={f"+{key}": value}, **{option: None})
    assert getattr(found, option) == value


def test_one_process_on_the_cpu(plan):
    made = plan(backend=None)
    assert made.world == World(device="cpu")
    assert (made.config.backend, made.config.suite) == ("stub", "stubs")
    assert made.config.launcher is None
    assert made.task.name == "Stub-v0"


def test_a_gpu_is_used_if_there_is_one(plan, two_gpus):
    made = plan(backend=None)
    assert (made.config.backend, made.world.device) == ("stub_gpu", "cuda:0")


@pytest.mark.parametrize("options", [{"device": "cpu"}, {"gpu_ids": "None"}, {"backend": "stub"}])
def test_the_cpu_can_be_requested(plan, two_gpus, options):
    made = plan(**{"backend": None, **options})
    assert (made.config.backend, made.world.device) == ("stub", "cpu")


@pytest.mark.parametrize(
    ("options", "device"),
    [({"device": "cuda"}, "cuda:0"), ({"device": "cuda:1"}, "cuda:1"), ({"gpu_ids": 1}, "cuda:1")],
)
def test_one_process_takes_the_requested_gpu(plan, two_gpus, options, device):
    assert plan(backend=None, **options).world.device == device


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "stub_gpu"}, "--backend stub_gpu: needs a GPU, and no GPU is visible"),
        ({"device": "cuda"}, "--device cuda: needs a GPU, and no GPU is visible"),
        ({"gpu_ids": 0}, "--gpu-ids 0: there is no GPU 0: no GPU is visible"),
        ({"gpu_ids": "all"}, "--gpu-ids all: no GPU is visible"),
        ({"gpu_ids": [0, 1]}, "--gpu-ids 0 1: there is no GPU 0"),
        ({"device": "tpu"}, "No backend: does not run numpy on tpu. Installed: "),
        ({"backend": "stub", "device": "cuda"}, "--backend stub: does not run numpy on cuda"),
        ({"distributed": True, "nproc_per_node": "gpu"}, "--nproc-per-node gpu: the run is on"),
    ],
)
def test_without_gpus_options_that_need_one_are_refused(refused, options, message):
    assert message in refused(**{"backend": None, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda:2"}, "--device cuda:2: 2 are visible, from 0."),
        ({"device": "cuda:x"}, "--device cuda:x"),
        ({"gpu_ids": [1, 2]}, "there is no GPU 2: 2 GPUs are visible"),
        ({"nproc_per_node": 3, "distributed": True}, "--nproc-per-node 3: only 2 GPU"),
        ({"nproc_per_node": 2, "gpu_ids": 1, "distributed": True}, "only 1 GPU"),
        ({"nproc_per_node": 2}, "--nproc-per-node 2: add --distributed"),
        ({"device": "cuda:1", "distributed": True}, "--device cuda:1"),
    ],
)
def test_wrong_choices_with_two_gpus_are_refused(refused, two_gpus, options, message):
    assert message in refused(backend=None, **options)


@pytest.mark.parametrize("cpu", [{"device": "cpu"}, {"backend": "stub"}])
@pytest.mark.parametrize("gpu", [[0, 1], "all"])
def test_gpus_for_a_run_on_the_cpu_are_refused(refused, two_gpus, cpu, gpu):
    message = refused(**{"backend": None, "distributed": True, **cpu, "gpu_ids": gpu})
    assert message.startswith("--gpu-ids: the run is on the CPU")


SHARING = {"backend": "stub_shared", "device": "cuda"}


@pytest.mark.parametrize(
    ("options", "ranks", "ids", "said"),
    [
        ({}, 2, (0, 1), "GPU 0: rank 0; GPU 1: rank 1"),
        ({"gpu_ids": [1, 0]}, 2, (1, 0), "GPU 1: rank 0; GPU 0: rank 1"),
        (
            {"nproc_per_node": 5},
            5,
            (0, 1),
            "GPU 0: ranks 0, 2, 4 share it; GPU 1: ranks 1, 3 share it",
        ),
        ({"nproc_per_node": 3}, 3, (0, 1), "GPU 0: ranks 0, 2 share it; GPU 1: rank 1"),
        ({"nproc_per_node": 2, "gpu_ids": 1}, 2, (1,), "GPU 1: ranks 0, 1 share it"),
        (
            {"nproc_per_node": 3, "gpu_ids": "all"},
            3,
            (0, 1),
            "GPU 0: ranks 0, 2 share it; GPU 1: rank 1",
        ),
    ],
)
def test_ranks_share_gpus_on_request(plan, two_gpus, options, ranks, ids, said):
    made = plan(**SHARING, distributed=True, **options)
    assert (made.config.nproc_per_node, made.config.gpu_ids) == (ranks, ids)
    assert made.config.backend == "stub_shared"
    assert f"\nGPUs          {said}\n" in plan_table(made)


def test_the_plan_says_what_is_observed(plan):
    made = plan()
    groups = {"critic": ArrayInfo((6,)), "policy": ArrayInfo((48, 64, 3), "uint8")}
    seen = TaskInfo("any", "multi_discrete", observations=groups, actions=(3, 2))
    unseen = dataclasses.replace(seen, observations=None)
    row = "\nobservations  policy 48 x 64 x 3, critic 6; actions 3 x 2\n"
    assert row in plan_table(dataclasses.replace(made, task=seen))
    row = "\nobservations  ?; actions 3 x 2\n"
    assert row in plan_table(dataclasses.replace(made, task=unseen))


def test_the_plan_says_which_gpu_each_rank_has(plan, two_gpus):
    made = plan(backend=None, distributed=True, gpu_ids=[1, 0])
    assert "\nGPUs          GPU 1: rank 0; GPU 0: rank 1\n" in plan_table(made)
    made = plan(backend=None, distributed=True)
    assert "\nGPUs          GPU 0: rank 0; GPU 1: rank 1\n" in plan_table(made)
    assert "\nGPUs " not in plan_table(plan(distributed=True))
    assert "\nGPUs " not in plan_table(plan(backend=None, device="cuda"))


def test_one_process_takes_a_gpu_with_a_backend_that_shares(plan, two_gpus):
    assert plan(**SHARING).world.device == "cuda:0"
    assert plan(backend="stub_shared", device="cuda:1").world.device == "cuda:1"


@pytest.mark.parametrize("options", [{}, {"device": "cpu"}, {"gpu_ids": "None", "device": "cuda"}])
def test_a_backend_that_shares_is_on_the_cpu_unless_a_gpu_is_requested(plan, two_gpus, options):
    assert plan(**{"backend": "stub_shared", **options}).world.device == "cpu"


def test_ranks_never_share_gpus_by_default(plan, two_gpus):
    assert plan(backend=None, device="cuda").config.backend == "stub_gpu"


def test_joined_ranks_share_gpus_in_turn(plan, two_gpus):
    def device(local_rank):
        place = {**TORCHRUN, "RANK": "2", "LOCAL_RANK": local_rank}
        place |= {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "0"}
        return plan(place, **SHARING, distributed=True).world.device

    assert [device(rank) for rank in "0123"] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]


OWN = {"backend": "stub_gpu", "distributed": True}


@pytest.mark.parametrize("options", [{}, {"device": "cuda"}])
def test_ranks_share_the_gpus_of_a_named_backend_that_can(plan, two_gpus, options):
    made = plan(**OWN, nproc_per_node=3, **options)
    assert (made.config.nproc_per_node, made.config.gpu_ids) == (3, (0, 1))
    assert "GPU 0: ranks 0, 2 share it; GPU 1: rank 1" in plan_table(made)
    variables = {**TORCHRUN, "RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "3"}
    variables |= {"LOCAL_WORLD_SIZE": "3", "GROUP_RANK": "0"}
    joined = plan(variables, **OWN, **options)
    assert (joined.world.device, joined.config.gpu_ids) == ("cuda:0", (0, 1))
    assert "GPU 0: ranks 0, 2 share it; GPU 1: rank 1" in plan_table(joined)


def test_a_backend_that_cannot_share_here_says_why(refused, plan, two_gpus, monkeypatch):
    monkeypatch.setenv("STUB_CANNOT_SHARE", "its version is too old.")
    message = refused(**OWN, nproc_per_node=2, gpu_ids=0)
    assert message == "--backend stub_gpu: 2 ranks on 1 GPU: its version is too old."
    assert plan(**OWN, nproc_per_node=2).config.gpu_ids is None


def test_without_a_gpu_there_is_none_to_share(refused):
    message = refused(**SHARING, distributed=True, nproc_per_node=2)
    assert "--device cuda: needs a GPU, and no GPU is visible" in message
    assert message.endswith("On the CPU: --device cpu.")


def test_too_few_gpus_suggests_sharing_them(refused, two_gpus):
    how = (
        "To debug ranks that share GPUs: --backend stub_gpu or --backend stub_shared --device cuda."
    )
    assert how in refused(backend=None, distributed=True, nproc_per_node=3)
    variables = {**TORCHRUN, "RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "3"}
    variables |= {"LOCAL_WORLD_SIZE": "3", "GROUP_RANK": "0"}
    assert how in refused(variables, backend=None, distributed=True)


@pytest.mark.parametrize(
    ("options", "ranks", "ids"),
    [
        ({"distributed": True}, 2, None),
        ({"distributed": True, "gpu_ids": 1}, 1, (1,)),
        ({"distributed": True, "nproc_per_node": 1}, 1, None),
        ({"gpu_ids": [1, 0]}, 2, (1, 0)),
        ({"gpu_ids": "all"}, 2, None),
    ],
)
def test_ranks_and_gpus_of_a_distributed_run(plan, two_gpus, options, ranks, ids):
    made = plan(backend=None, **options)
    assert made.world is None
    assert made.config.distributed
    assert (made.config.nproc_per_node, made.config.gpu_ids) == (ranks, ids)


def test_the_first_algorithm_that_a_library_offers_is_the_default(config):
    assert config(algorithm=None).algorithm == "ppo"


def test_only_visible_gpus_count(plan, two_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert plan(backend=None, distributed=True).config.nproc_per_node == 1


def test_a_distributed_run_on_the_cpu(config):
    # The launcher `scheduler`, which comes first by name, is never the default.
    made = config(distributed=True, nproc_per_node=3)
    assert (made.nproc_per_node, made.launcher) == (3, "stub_launcher")
    assert 1 <= config(distributed=True).nproc_per_node <= 8


def test_a_launcher_of_nodes_does_not_ask_this_machine_for_its_gpus(plan):
    on_gpus = {"backend": None, "launcher": "scheduler", "nnodes": 2, "device": "cuda"}
    made = plan(**on_gpus, nproc_per_node=4).config
    assert (made.backend, made.launcher, made.distributed) == ("stub_gpu", "scheduler", True)
    assert (made.nnodes, made.nproc_per_node, made.device_kind) == (2, 4, "cuda")
    made = plan(backend=None, launcher="scheduler", nproc_per_node=3, total_envs=6).config
    assert (made.backend, made.nproc_per_node, made.num_envs) == ("stub", 3, 2)
    made = plan(backend=None, launcher="scheduler", device="cuda", nproc_per_node=1).config
    assert made.backend == "stub_gpu"
    assert "4 on each of 2 nodes, which scheduler starts" in plan_table(
        plan(**on_gpus, nproc_per_node=4)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--launcher scheduler: say how many ranks each node has: --nproc-per-node"),
        ({"nproc_per_node": "gpu"}, "say how many ranks each node has"),
        ({"nproc_per_node": 2, "node_rank": 1}, "--node-rank 1: the launcher scheduler does not"),
        ({"nproc_per_node": 2, "gpu_ids": "all"}, "--gpu-ids: the launcher scheduler starts"),
        ({"nproc_per_node": 2, "device": "cuda:1"}, "--device cuda:1: each rank of a distributed"),
    ],
)
def test_what_a_launcher_of_nodes_cannot_start_is_refused(refused, options, message):
    assert message in refused(**{"backend": None, "launcher": "scheduler", "nnodes": 2, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nproc_per_node": 2}, "--nproc-per-node 2: add --distributed."),
        ({"nnodes": 2}, "--nnodes 2: add --distributed."),
        ({"distributed": True, "node_rank": 1}, "--node-rank 1: must be below --nnodes 1."),
    ],
)
def test_options_for_several_ranks_need_a_distributed_run(refused, options, message):
    assert refused(**options) == message


def test_torchruns_ranks_are_joined(plan):
    made = plan(TORCHRUN, distributed=True)
    assert made.world == World(1, 1, 0, 2, 2, 1, "cpu")


def test_torchruns_ranks_without_distributed_are_refused(refused):
    message = refused(TORCHRUN)
    assert "started 2 ranks" in message
    assert "Add --distributed" in message


def test_one_rank_of_torchrun_may_train_alone(plan):
    variables = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    assert plan(variables).world == World(device="cpu")
    assert plan(variables, distributed=True).world == World(device="cpu")


def test_joined_ranks_take_the_gpu_of_their_local_rank(plan, two_gpus):
    assert plan(TORCHRUN, backend=None, distributed=True).world.device == "cuda:1"


def test_joined_ranks_that_see_one_gpu_each_take_it(plan, two_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert plan(TORCHRUN, backend=None, distributed=True).world.device == "cuda:0"


def test_more_joined_ranks_than_gpus_are_refused(refused, two_gpus):
    variables = {"RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}
    assert "Local rank 2 has no GPU" in refused(variables, backend=None, distributed=True)


def test_restarts_are_refused_where_no_ranks_are_started(refused):
    alone = "--max-restarts: no ranks are started here. Add --distributed."
    assert refused(max_restarts=1) == alone
    joined = "--max-restarts: no ranks are started here. Give it to torchrun."
    assert refused(TORCHRUN, max_restarts=1, distributed=True) == joined


def test_restarts_of_several_nodes_need_a_launcher_that_has_them(plan, refused):
    ranks = {"distributed": True, "nproc_per_node": 2, "launcher": "without_restarts"}
    assert plan(**ranks, max_restarts=1).config.max_restarts == 1  # rltrain starts them again.
    nodes = {**ranks, "nnodes": 2, "node_rank": 0, "master_addr": "node0"}
    message = refused(**nodes, max_restarts=1)
    assert "--max-restarts 1: the launcher without_restarts does not have it for several" in message


@pytest.mark.parametrize(
    ("value", "message"),
    [("1:4", "must be"), ("1:", "must be"), (0, "must be"), ("many", "must be")],
)
def test_a_number_of_nodes_is_one_number(refused, value, message):
    assert f"--nnodes {value}: {message}" in refused(distributed=True, nnodes=value)


@pytest.mark.parametrize(
    ("options", "each"),
    [
        ({}, 2),
        ({"num_envs": 5}, 5),
        ({"total_envs": 6}, 6),
        ({"total_envs": 6, "distributed": True, "nproc_per_node": 3}, 2),
        ({"total_envs": 12, "distributed": True, "nproc_per_node": 3, "nnodes": 2}, 2),
        ({"total_envs": 6, "num_envs": 3, "distributed": True, "nproc_per_node": 2}, 3),
    ],
)
def test_environments_per_rank(config, options, each):
    assert config(**options).num_envs == each


@pytest.mark.parametrize(
    ("of_task", "asked", "random"),
    [(False, None, False), (False, True, True), (True, None, True), (True, False, False)],
)
def test_first_lengths_are_random_as_the_task_or_the_user_says(
    monkeypatch, plan, stub, of_task, asked, random
):
    described = dataclasses.replace(stub.describe("Stub-v0", {}), random_lengths=of_task)
    monkeypatch.setattr(stub, "describe", lambda task, env: described)
    made = plan(random_lengths=asked)
    assert made.config.random_lengths is random
    assert ("first episodes of random lengths" in plan_table(made)) is random


def test_total_environments_are_divided_over_joined_ranks(config):
    assert config(TORCHRUN, total_envs=8, distributed=True).num_envs == 4


@pytest.mark.parametrize(("total", "nearest"), [(7, 6), (2, 3), (8, 9), (1, 3)])
def test_a_total_that_cannot_be_divided_is_refused(refused, total, nearest):
    message = refused(total_envs=total, distributed=True, nproc_per_node=3)
    assert f"--total-envs {total}: cannot be divided over 3 ranks" in message
    assert message.endswith(f"that can is {nearest}.")


def test_two_numbers_of_environments_that_differ_are_refused(refused):
    assert "Give one of the two" in refused(num_envs=4, total_envs=6)


# The amount of experience

RANKS = {"distributed": True, "nproc_per_node": 2}


@pytest.mark.parametrize(
    ("options", "iterations", "experience"),
    [
        ({}, 3, "2 environments x 4 steps = 8 frames an iteration, 24 in 3 iterations"),
        (RANKS, 3, "2 environments x 4 steps x 2 ranks = 16 frames an iteration, 48 in 3"),
    ],
)
def test_the_plan_shows_the_experience_of_a_run(plan, options, iterations, experience):
    made = plan(**options)
    assert made.config.max_iterations == made.iteration.iterations == iterations
    assert made.config.agent["learn"]["iterations"] == iterations
    assert experience in plan_table(made)


@pytest.mark.parametrize(
    ("in_file", "options", "batch", "shown"),
    [
        # The file's number of environments, or if it has none, the task's: 2.
        ({"envs": 16}, {"num_envs": 4}, 8, "2 of 8 rows a rank"),
        ({"envs": -1, "batch": 4}, {"num_envs": 6}, 12, "2 of 12 rows a rank"),
        ({"envs": 16}, {**RANKS, "total_envs": 16}, 16, "2 of 16 rows a rank"),
        ({"envs": 16}, {"num_envs": 4, "agent": {"learn.envs": 4}}, 8, "2 of 8 rows a rank"),
    ],
)
def test_mini_batches_keep_their_number(plan, stub, tmp_path, in_file, options, batch, shown):
    learn = stub.DEFAULTS["learn"]
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump({"model": {}, "learn": {**learn, "batch": 32, **in_file}}))
    made = plan(**options, agent_config=str(path), scale_minibatches=True)
    assert made.config.agent["learn"]["batch"] == batch
    assert not hasattr(made.config, "scale_minibatches")  # Scaled once.
    assert f"\nmini-batches  {shown}" in plan_table(made)


def test_the_plan_shows_mini_batches(plan):
    assert "\nmini-batches  2 of 4 rows a rank\n" in plan_table(plan(agent={"+learn.batch": 4}))
    assert "\nmini-batches" not in plan_table(plan())


def test_scaling_mini_batches_without_mini_batches_is_refused(refused):
    message = refused(scale_minibatches=True, agent={"+learn.batch": None})
    assert message.startswith(
        "--scale-minibatches: with these options stub does not divide rollouts into"
    )


def test_a_batch_that_does_not_fit_is_refused_by_its_library(refused):
    message = "agent.learn.batch 4: does not divide a rank's batch of 13."
    assert refused(num_envs=13) == message
    assert refused(**RANKS, total_envs=26) == message


def test_options_in_the_file_apply_to_the_run(config):
    made = config()
    assert (made.seed, made.max_iterations) == (11, 3)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("seed", "base_seed", 5), ("max_iterations", "iterations", 9), ("num_envs", "envs", 6)],
)
def test_a_flag_wins_over_the_file_and_reaches_the_library(config, name, key, value):
    made = config(**{name: value})
    assert getattr(made, name) == value
    assert made.agent["learn"][key] == value


def test_a_flag_and_an_override_of_the_same_option_must_agree(config, refused):
    assert config(seed=7, agent={"learn.base_seed": 7}).seed == 7
    assert refused(seed=3, agent={"learn.base_seed": 7}) == (
        "--seed 3 and agent.learn.base_seed=7 are the same option of stub. Give one of the two."
    )


def test_an_override_wins_over_the_file(config):
    made = config(agent={"learn.base_seed": 7})
    assert (made.seed, made.agent["learn"]["base_seed"]) == (7, 7)


def test_none_means_not_given(plan, stub):
    made = make_plan({**stub.OPTIONS, "max_iterations": None, "seed": None, "num_envs": None}, {})
    assert (made.config.seed, made.config.max_iterations) == (11, 3)
    assert made.config.agent == stub.DEFAULTS


def test_the_default_applies_if_nothing_is_given(config):
    assert config(agent={"learn.base_seed": None}).seed == 42


def test_environments_in_the_file_win_over_the_tasks(config):
    assert config(agent={"learn.envs": 3}).num_envs == 3
    assert config(agent={"learn.envs": 3}, total_envs=4).num_envs == 4


def test_a_wrong_value_in_the_file_is_refused(refused):
    assert "--num-envs 0: must be at least 1" in refused(agent={"learn.envs": 0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"library": "stubb"}, "Unknown library 'stubb'. Did you mean 'stub'?"),
        ({"task": "stub-v0"}, "Unknown task 'stub-v0'. Did you mean 'Stub-v0'?"),
        ({"suite": "stub"}, "Unknown suite 'stub'. Did you mean 'stubs'?"),
        ({"algorithm": "ppp"}, "--algorithm ppp: stub is offered with ppo, sac. Did you mean 'pp"),
        ({"framework": "numpi"}, "--framework numpi: stub runs on numpy only. Did you mean 'num"),
        ({"backend": "stup"}, "Unknown backend 'stup'. Did you mean 'stub"),
        ({"writers": ["note"]}, "Unknown writer 'note'. Did you mean 'notes'?"),
        ({"observers": "watch"}, "Unknown observer 'watch'. Did you mean 'watcher'?"),
        ({"grad_sync": "plan"}, "Unknown gradient sync 'plan'. Did you mean 'plain'?"),
        (
            {"launcher": "stub_launch", "distributed": True},
            "Unknown launcher 'stub_launch'. Did you mean 'stub_launcher'?",
        ),
        ({"agent": {"learn.rat": 1}}, "Did you mean 'agent.learn.rate'?"),
        ({"env": {"gravy": 1}}, "Did you mean 'gravity'?"),
        ({"num_env": 1}, "Did you mean 'num_envs'?"),
    ],
)
def test_unknown_names_are_refused_with_the_closest(refused, options, message):
    assert message in refused(**options)


def test_a_task_that_two_suites_have_needs_the_suite(site, refused, config):
    site.install(
        "second-suite",
        """
        from rltrain.hookspecs import hookimpl
        from rltrain.specs import SuiteSpec
        from stub_plugin import describe

        @hookimpl
        def rltrain_provides():
            facts = {"frameworks": ("numpy",), "describe": describe, "tasks": list}
            return [SuiteSpec(name="second", factory="stub_parts:StubSuite", **facts)]
        """,
    )
    assert "Several suites have a task 'Stub-v0': say which by --suite: second, stubs." in refused()
    assert config(suite="second").suite == "second"


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        ("backend", "stub", {"backend": None}),
        ("suite", "stubs", {}),
        ("suite", "stubs", {"suite": "stubs"}),
    ],
)
def test_two_that_share_one_name_cannot_be_told_apart_by_it(site, refused, kind, name, options):
    other = f"""
        import stub_plugin
        from rltrain.hookspecs import hookimpl

        @hookimpl
        def rltrain_provides():
            specs = stub_plugin.rltrain_provides()
            return [spec for spec in specs if (spec.kind, spec.name) == {(kind, name)}]
        """
    site.install("other", other)
    twice = f"The {kind} '{name}' is provided twice, by other 1.0 and rltrain-stub 1.0. Uninstall"
    assert refused(**options).startswith(twice)


def test_the_options_of_the_task_reach_what_the_suite_tells_of_it(site, plan):
    site.install(
        "crowd-suite",
        """
        from rltrain.hookspecs import hookimpl
        from rltrain.specs import SuiteSpec
        from rltrain.types import TaskInfo
        from stub_plugin import DEFAULTS

        def describe(task, env):
            size = env.get("crowd", {}).get("size", 2)
            return TaskInfo(task, "continuous", size, env=env) if task == "Crowd-v0" else None

        def tuned(task, library, algorithm):
            return {**DEFAULTS, "told": task.env}

        @hookimpl
        def rltrain_provides():
            facts = {"frameworks": ("numpy",), "describe": describe, "tasks": list, "tuned": tuned}
            return [SuiteSpec(name="crowds", factory="stub_parts:StubSuite", **facts)]
        """,
    )
    made = plan(task="Crowd-v0", env={"crowd.size": 6, "+crowd.name": "few"})
    assert made.config.num_envs == made.task.num_envs == 6
    assert made.config.agent["told"] == {"crowd": {"size": 6, "name": "few"}} == made.config.env


def test_an_unknown_task_may_belong_to_an_unusable_plugin(site, refused):
    site.install("robots", "import no_such_module")
    message = refused(task="Robot-v0")
    assert message.startswith("Unknown task 'Robot-v0'.")
    assert "robots (broken: ModuleNotFoundError: No module named 'no_such_module')" in message


def test_a_blocked_library_is_reported(refused):
    assert "its plugin rltrain-stub 1.0 is blocked" in refused(no_plugins="stub")


def test_the_installed_writers_are_the_default(config):
    assert "console" in config(writers=None).writers
    assert config(writers=[]).writers == ()


def test_a_refused_combination_gives_the_reason_and_what_works(refused, plan):
    message = refused(algorithm="sac", distributed=True, nproc_per_node=2)
    assert message == (
        "sac on several ranks: its replay buffers are not shared. Instead: train on one rank."
    )
    assert plan(algorithm="sac")
    assert plan(algorithm="sac", distributed=True, nproc_per_node=1)


def test_a_checkpoint_must_exist_and_fit_the_library(refused, config, tmp_path):
    path = tmp_path / "last.txt"
    assert refused(checkpoint=path) == f"--checkpoint {path}: there is no such file."
    assert refused(agent_config=tmp_path) == f"--agent-config {tmp_path}: is a folder."
    (tmp_path / INDEX).write_text("[]")
    removed = tmp_path / "checkpoints" / "9.txt"
    assert refused(checkpoint=removed) == (
        f"--checkpoint {removed}: there is no such file. A run with --keep removes older ones: "
        "type the command again, or name one."
    )
    path.write_text("")
    assert refused(checkpoint=path) == f"--checkpoint {path}: it is empty."
    path.write_text("something else")
    message = f"--checkpoint {path}: this is not a checkpoint of stub: it lacks stub."
    assert refused(checkpoint=path) == message
    path.write_text("stub 3")
    assert config(checkpoint=path).checkpoint == str(path)


def test_latest_is_found_by_the_one_process_that_decides(config, refused, tmp_path):
    none = refused(checkpoint="latest", log_root=str(tmp_path))
    assert none.startswith("--checkpoint latest: no run of stub on Stub-v0")
    folder = create_run_folder(str(tmp_path), "stub", "Stub-v0", None)
    state = made_state(2, 1.0, circumstances={"algorithm": "ppo"})
    path = save_with_state(folder, "a.txt", lambda path: path.write_text("stub"), state)
    for choice in ("latest", "best"):
        assert config(checkpoint=choice, log_root=str(tmp_path)).checkpoint == str(path)
    # Rank 1 of torchrun leaves the choice to rank 0.
    joined = config(TORCHRUN, checkpoint="latest", log_root=str(tmp_path), distributed=True)
    assert joined.checkpoint == "latest"
    nodes = {"distributed": True, "nproc_per_node": 2, "nnodes": 2, "node_rank": 1}
    assert config(checkpoint="latest", log_root=str(tmp_path), **nodes).checkpoint == "latest"
    # Three iterations by default, of which two are done.
    done = refused(checkpoint="latest", log_root=str(tmp_path), max_iterations=2)
    assert done.startswith("--max-iterations 2: the checkpoint was written after iteration 2")
    assert config(checkpoint="latest", log_root=str(tmp_path), max_iterations=2, algorithm="sac")


def test_a_checkpoint_of_another_framework_is_refused(refused, tmp_path):
    folder = create_run_folder(str(tmp_path), "stub", "Stub-v0", None)
    circumstances = {"algorithm": "ppo", "framework": "jax"}
    state = made_state(2, 1.0, circumstances=circumstances)
    path = save_with_state(folder, "a.txt", lambda path: path.write_text("stub"), state)
    assert refused(checkpoint="latest", log_root=str(tmp_path)) == (
        f"--checkpoint {path}: was saved with jax, but this run uses numpy, whose models and "
        "optimizers differ. Give --framework jax."
    )


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_log_root_that_cannot_be_written_is_refused(refused, tmp_path, below):
    (tmp_path / "file").write_text("in the way")
    log_root = tmp_path / "file" / below
    assert f"--log-root {log_root}: cannot be written" in refused(log_root=log_root)


@pytest.mark.parametrize("name", ["a/b", "..", "."])
def test_a_run_name_is_part_of_a_folders_name(refused, name):
    assert refused(run_name=name).startswith(f"--run-name {name}: is part of a folder's name")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *(
            (name, "ends of lines and other control")
            for name in ("a\nb", "a\x1b[2Jb", "a\u202eb", "\t")
        ),
        *((name, "room for 232 bytes") for name in ("x" * 233, "x" * 300, "é" * 117, "🤖" * 59)),
        *((name, "begin it with a letter") for name in ("-x", "--library")),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_a_run_name_is_refused_that_no_folder_or_line_can_have(refused, name, said):
    message = refused(run_name=name)
    assert said in message
    assert message.isprintable()
    assert len(message) < 300


@pytest.mark.parametrize("name", ["x" * 232, "é" * 116, "Größe 2 (neu)", "a.b", "..a", "a-"])
def test_any_other_run_name_makes_a_folder(tmp_path, name):
    check_run_name(name)
    for _ in range(3):  # Of the same second: they have numbers.
        path = create_run_folder(str(tmp_path), "stub", "Stub-v0", name).path
        assert path.parent == tmp_path / "stub" / "Stub-v0"
        assert name in path.name


@pytest.mark.parametrize("task", ["..", ".", "../../x", "/etc/passwd", "a\n\x1b[2J", "-x"])
def test_any_task_has_a_folder_of_its_own(tmp_path, task):
    folder = create_run_folder(str(tmp_path), "stub", task, None).path.parent
    assert folder.parent == tmp_path / "stub"
    assert folder.name.isprintable()
    assert folder != create_run_folder(str(tmp_path), "stub", f"{task}2", None).path.parent


@pytest.mark.parametrize("folder", ["a\nb", "a\x1b[2J", "x" * 300], ids=ascii)
def test_a_folder_that_no_line_can_name_is_refused(refused, folder):
    message = refused(log_root=folder)
    assert "cannot be written" in message
    assert message.isprintable()


def test_a_plan_leaves_no_trace(plan, tmp_path):
    plan(log_root="new/logs")
    assert list((tmp_path / "work").iterdir()) == []


def test_what_bad_numbers_do_is_one_of_two(config, refused):
    assert "stop or skip" in refused(on_nonfinite="ignore")
    assert config(on_nonfinite="skip").on_nonfinite == "skip"


AUTHORS = """
    from rltrain.hookspecs import hookimpl
    from rltrain.specs import SuiteSpec
    from rltrain.types import TaskInfo

    def describe(task, env):
        if task.endswith("-v7"):
            return TaskInfo(task, "continuous", library=task.removesuffix("-v7"))
        if task.endswith("-v8"):
            names = task.removesuffix("-v8").split("-")
            return TaskInfo(task, "continuous", agents={name: (name, "ppo") for name in names})

    @hookimpl
    def rltrain_provides():
        facts = {"frameworks": ("numpy",), "describe": describe, "tasks": list}
        return [SuiteSpec(name="sevens", factory="stub_parts:StubSuite", **facts)]
"""


def test_the_library_of_the_tasks_authors_is_the_default(site, plan, monkeypatch, capsys):
    site.install("sevens-suite", AUTHORS)
    made = plan(task="stub-v7", library=None)
    assert made.config.library == "stub"
    assert "stub, ppo, on numpy (the choice of the task's authors)" in plan_table(made)
    assert "authors" not in plan_table(plan(task="stub-v7"))
    monkeypatch.setattr("rltrain.plan.choices.DEFAULT_LIBRARY", "stub")
    assert "stub, ppo, on numpy (the default)" in plan_table(plan(library=None))
    assert capsys.readouterr().err == ""
    assert plan(task="missing-v7", library=None).config.library == "stub"
    told = capsys.readouterr().err
    assert "rltrain: stub: the task's authors chose missing, which cannot be used: " in told


@pytest.mark.parametrize("door", ["file", "override", "added", "task"])
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"resume": True}, "agent.resume: not read here. Give --resume."),
        ({"logger": "wandb"}, "agent.logger: not read here. Give --writer."),
        ({"resume": False, "logger": "console"}, None),
        ({"folder": "x"}, "agent.folder: not read here. Give --log-root."),
        (
            {"resume": True, "load_run": ".*"},
            "agent.resume, agent.load_run: not read here. Give --resume.",
        ),
    ],
)
def test_an_option_for_another_program_is_answered_wherever_it_is(
    door, said, told, stub, plan, tmp_path, capsys, monkeypatch
):
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump({**stub.DEFAULTS, **said}))
    options = {"agent_config": str(path)} if door == "file" else {}
    if door in ("override", "added"):
        options["agent"] = {f"{'+' * (door == 'added')}{key}": said[key] for key in said}
    elif door == "task":
        monkeypatch.setattr(stub, "DEFAULTS", {**stub.DEFAULTS, **said})
    else:
        plan(TORCHRUN, distributed=True, **options)
        assert capsys.readouterr().err == "", "only rank 0 tells"
    if door == "override" and told and "folder" not in said:
        with pytest.raises(UsageError, match=r"^agent\.\w+=\w+: not read here. Give --"):
            plan(**options)
        return
    plan(**options)
    if door in ("file", "task"):  # What every file has is answered to those who type it.
        told = told and told.replace(", agent.load_run", "")
        told = None if "folder" in said else told
    assert capsys.readouterr().err == (f"rltrain: {told}\n" if told else "")


def test_a_library_for_which_alone_the_task_has_options_is_the_default(site, plan, monkeypatch):
    site.install("sevens-suite", AUTHORS)
    assert plan(task="missing-stub-v8", library=None).config.library == "stub"
    monkeypatch.setattr("rltrain.plan.choices.DEFAULT_LIBRARY", "stub")
    for task in ("skrl-stub-v8", "missing-v8"):
        assert "(the default)" in plan_table(plan(task=task, library=None))


@pytest.mark.parametrize(
    ("typed", "kept"), [("90s", "90s"), ("10m", "600s"), ("1h", "3600s"), ("2h", "7200s"), (5, 5)]
)
def test_an_interval_is_kept_in_seconds_or_iterations(typed, kept):
    options = RunOptions.from_mapping({"checkpoint_interval": typed})
    assert options.checkpoint_interval == kept
