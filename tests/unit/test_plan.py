"""The plan of a run: every choice resolved, every refusal made, before any rank starts."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
import yaml
from helpers import check_answers, refusal
from made_up_runs import made_state
from messages import check_said, says

from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.plan.files import check_run_name
from rltrain.plan.resolve import make_plan
from rltrain.plan.table import plan_table
from rltrain.storage.checkpoint import INDEX, save_with_state
from rltrain.storage.run_folder import create_run_folder
from rltrain.types import ArrayInfo, TaskInfo, World

TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
OF_THREE = {"RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}
DISTRIBUTED = {"distributed": True}
RANKS = {"distributed": True, "nproc_per_node": 2}
SHARING = {"backend": "stub_shared", "device": "cuda"}
OWN = {"backend": "stub_gpu", "distributed": True}
SCHEDULED = {"launcher": "scheduler", "nnodes": 2}


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
    return lambda environ=None, **options: refusal(plan, environ, **options)


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setenv("STUB_GPUS", "2")


STUBS = {"--library": "stub", "--task": "Stub-v0", "--framework": "numpy"}
STUBS |= {"--grad-sync": "plain", "--writer": "notes"}


def test_mistakes_are_answered_as_written(cli, monkeypatch):
    """Each line is typed with the options of STUBS that it does not have, and --dry-run."""

    def answer(line: str) -> tuple[int, str]:
        variable, words = re.fullmatch(r"(?:STUB_GPUS=(\d) )?rltrain (.+)", line).groups()
        monkeypatch.setenv("STUB_GPUS", variable or "0")
        given = [word for pair in STUBS.items() if pair[0] not in line for word in pair]
        status, _, err = cli(*given, *shlex.split(words), "--dry-run")
        return status, err

    monkeypatch.setenv("RLTRAIN_PLUGINS", "rltrain-stub")
    check_answers(Path(__file__).with_name("answers.txt"), answer)


@pytest.mark.parametrize("options", [{"task": "stub-v0"}, {"suite": "stub"}, {"num_env": 1}])
def test_what_is_spelled_wrong_is_named_with_what_is_like_it(refused, options):
    check_said(refused(**options))


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
    assert (made.config.launcher, made.task.name) == (None, "Stub-v0")


@pytest.mark.parametrize(
    ("options", "backend", "device"),
    [
        ({}, "stub_gpu", "cuda:0"),
        ({"device": "cpu"}, "stub", "cpu"),
        ({"gpu_ids": "None"}, "stub", "cpu"),
        ({"backend": "stub"}, "stub", "cpu"),
        ({"device": "cuda"}, "stub_gpu", "cuda:0"),  # Ranks never share by default.
        ({"device": "cuda:1"}, "stub_gpu", "cuda:1"),
        ({"gpu_ids": 1}, "stub_gpu", "cuda:1"),
        (SHARING, "stub_shared", "cuda:0"),
        ({**SHARING, "device": "cuda:1"}, "stub_shared", "cuda:1"),
        ({"backend": "stub_shared"}, "stub_shared", "cpu"),
        ({**SHARING, "device": "cpu"}, "stub_shared", "cpu"),
        ({**SHARING, "gpu_ids": "None"}, "stub_shared", "cpu"),
    ],
)
def test_the_backend_and_the_device_of_one_process(plan, two_gpus, options, backend, device):
    made = plan(**{"backend": None, **options})
    assert (made.config.backend, made.world.device) == (backend, device)


THREE = "GPU 0: ranks 0, 2 share it; GPU 1: rank 1"
FIVE = "GPU 0: ranks 0, 2, 4 share it; GPU 1: ranks 1, 3 share it"


@pytest.mark.parametrize(
    ("options", "ranks", "ids", "said"),
    [
        ({}, 2, (0, 1), "GPU 0: rank 0; GPU 1: rank 1"),
        ({"gpu_ids": [1, 0]}, 2, (1, 0), "GPU 1: rank 0; GPU 0: rank 1"),
        ({"nproc_per_node": 5}, 5, (0, 1), FIVE),
        ({"nproc_per_node": 3}, 3, (0, 1), THREE),
        ({"nproc_per_node": 2, "gpu_ids": 1}, 2, (1,), "GPU 1: ranks 0, 1 share it"),
        ({"nproc_per_node": 3, "gpu_ids": "all"}, 3, (0, 1), THREE),
        ({**OWN, "nproc_per_node": 3}, 3, (0, 1), THREE),
        ({**OWN, "nproc_per_node": 3, "device": None}, 3, (0, 1), THREE),
    ],
)
def test_ranks_share_gpus_on_request(plan, two_gpus, options, ranks, ids, said):
    made = plan(**{**SHARING, **DISTRIBUTED, **options})
    assert (made.config.nproc_per_node, made.config.gpu_ids) == (ranks, ids)
    assert made.config.backend == options.get("backend", "stub_shared")
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


def test_joined_ranks_share_gpus_in_turn(plan, two_gpus):
    def joined(local_rank, ranks, **options):
        place = {**TORCHRUN, "RANK": "2", "LOCAL_RANK": local_rank, "GROUP_RANK": "0"}
        place |= {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
        return plan(place, distributed=True, **options)

    found = [joined(rank, "4", **SHARING).world.device for rank in "0123"]
    assert found == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    for options in ({}, {"device": "cuda"}):
        made = joined("2", "3", backend="stub_gpu", **options)
        assert (made.world.device, made.config.gpu_ids) == ("cuda:0", (0, 1))
        assert THREE in plan_table(made)


def test_a_backend_that_cannot_share_here_says_why(refused, plan, two_gpus, monkeypatch):
    monkeypatch.setenv("STUB_CANNOT_SHARE", "its version is too old.")
    check_said(refused(**OWN, nproc_per_node=2, gpu_ids=0))
    assert plan(**OWN, nproc_per_node=2).config.gpu_ids is None


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
    assert (made.world, made.config.distributed) == (None, True)
    assert (made.config.nproc_per_node, made.config.gpu_ids) == (ranks, ids)


def test_only_visible_gpus_count(plan, two_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert plan(backend=None, distributed=True).config.nproc_per_node == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")  # As where each joined rank sees its own.
    assert plan(TORCHRUN, backend=None, distributed=True).world.device == "cuda:0"


def test_a_distributed_run_on_the_cpu(config):
    # The launcher `scheduler`, which comes first by name, is never the default.
    made = config(distributed=True, nproc_per_node=3)
    assert (made.nproc_per_node, made.launcher) == (3, "stub_launcher")
    assert 1 <= config(distributed=True).nproc_per_node <= 8


def test_a_launcher_of_nodes_does_not_ask_this_machine_for_its_gpus(plan):
    on_gpus = {"backend": None, **SCHEDULED, "device": "cuda"}
    made = plan(**on_gpus, nproc_per_node=4)
    assert "4 on each of 2 nodes, which scheduler starts" in plan_table(made)
    made = made.config
    assert (made.backend, made.launcher, made.distributed) == ("stub_gpu", "scheduler", True)
    assert (made.nnodes, made.nproc_per_node, made.device_kind) == (2, 4, "cuda")
    made = plan(backend=None, launcher="scheduler", nproc_per_node=3, total_envs=6).config
    assert (made.backend, made.nproc_per_node, made.num_envs) == ("stub", 3, 2)
    made = plan(backend=None, launcher="scheduler", device="cuda", nproc_per_node=1).config
    assert made.backend == "stub_gpu"


def test_torchruns_ranks_are_joined(plan, refused):
    assert plan(TORCHRUN, distributed=True).world == World(1, 1, 0, 2, 2, 1, "cpu")
    message = refused(TORCHRUN)
    assert "started 2 ranks" in message
    assert "Add --distributed" in message
    alone = {**TORCHRUN, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    for options in ({}, DISTRIBUTED):
        assert plan(alone, **options).world == World(device="cpu")


def test_joined_ranks_take_the_gpu_of_their_local_rank(plan, refused, two_gpus):
    assert plan(TORCHRUN, backend=None, distributed=True).world.device == "cuda:1"
    check_said(refused(OF_THREE, backend=None, distributed=True))


def test_restarts_of_several_nodes_need_a_launcher_that_has_them(plan, refused):
    joined = "--max-restarts: no ranks are started here. Give it to torchrun."
    assert refused(TORCHRUN, max_restarts=1, distributed=True) == joined
    ranks = {**RANKS, "launcher": "without_restarts"}
    assert plan(**ranks, max_restarts=1).config.max_restarts == 1  # rltrain starts them again.
    nodes = {**ranks, "nnodes": 2, "node_rank": 0, "master_addr": "node0"}
    check_said(refused(**nodes, max_restarts=1))


@pytest.mark.parametrize(
    ("options", "each"),
    [
        ({}, 2),
        ({"num_envs": 5}, 5),
        ({"total_envs": 6}, 6),
        ({"total_envs": 6, "distributed": True, "nproc_per_node": 3}, 2),
        ({"total_envs": 12, "distributed": True, "nproc_per_node": 3, "nnodes": 2}, 2),
        ({"total_envs": 6, "num_envs": 3, "distributed": True, "nproc_per_node": 2}, 3),
        ({"total_envs": 8, "distributed": True, "environ": TORCHRUN}, 4),
        # Those of the file win over the task's.
        ({"agent": {"learn.envs": 3}}, 3),
        ({"agent": {"learn.envs": 3}, "total_envs": 4}, 4),
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
    monkeypatch.setattr(stub, "TASK", dataclasses.replace(stub.TASK, random_lengths=of_task))
    made = plan(random_lengths=asked)
    assert made.config.random_lengths is random
    assert ("first episodes of random lengths" in plan_table(made)) is random


@pytest.mark.parametrize("total", [7, 2, 8, 1])
def test_a_total_that_cannot_be_divided_is_refused(refused, total):
    check_said(refused(total_envs=total, distributed=True, nproc_per_node=3))


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
    assert "\nmini-batches" not in plan_table(plan())


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("seed", "base_seed", 5), ("max_iterations", "iterations", 9), ("num_envs", "envs", 6)],
)
def test_a_flag_wins_over_the_file_and_reaches_the_library(config, name, key, value):
    made = config(**{name: value})
    assert getattr(made, name) == value
    assert made.agent["learn"][key] == value


def test_where_the_seed_comes_from(stub, config):
    made = make_plan({**stub.OPTIONS, "max_iterations": None, "seed": None, "num_envs": None}, {})
    assert (made.config.seed, made.config.max_iterations) == (11, 3)  # The file's.
    assert made.config.agent == stub.DEFAULTS
    assert config(agent={"learn.base_seed": None}).seed == 42
    made = config(agent={"learn.base_seed": 7})
    assert (made.seed, made.agent["learn"]["base_seed"]) == (7, 7)
    assert config(seed=7, agent={"learn.base_seed": 7}).seed == 7


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
    check_said(refused())
    assert config(suite="second").suite == "second"
    site.install("robots", "import no_such_module")  # It may have an unknown task.
    message = refused(task="Robot-v0")
    assert message.startswith("Unknown task 'Robot-v0'.")
    assert "robots (broken: ModuleNotFoundError: No module named 'no_such_module')" in message


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


def test_defaults_of_writers_and_of_the_algorithm(config):
    assert "console" in config(writers=None).writers
    assert config(writers=[], on_nonfinite="skip").writers == ()
    assert config(on_nonfinite="skip").on_nonfinite == "skip"
    assert config(algorithm=None).algorithm == "ppo"  # The first that the library offers.


def test_a_refused_combination_gives_the_reason_and_what_works(refused, plan):
    told = "sac on several ranks: its replay buffers are not shared. Instead: train on one rank."
    assert refused(algorithm="sac", **RANKS) == told
    assert plan(algorithm="sac")
    assert plan(algorithm="sac", distributed=True, nproc_per_node=1)


def test_a_checkpoint_must_exist_and_fit_the_library(refused, config, tmp_path):
    path = tmp_path / "last.txt"
    check_said(refused(checkpoint=path))
    check_said(refused(agent_config=tmp_path))
    (tmp_path / INDEX).write_text("[]")
    removed = tmp_path / "checkpoints" / "9.txt"
    check_said(refused(checkpoint=removed))
    path.write_text("")
    check_said(refused(checkpoint=path))
    path.write_text("something else")
    message = f"--checkpoint {path}: this is not a checkpoint of stub: it lacks stub."
    assert refused(checkpoint=path) == message
    path.write_text("stub 3")
    assert config(checkpoint=path).checkpoint == str(path)


def test_latest_is_found_by_the_one_process_that_decides(config, refused, tmp_path):
    check_said(refused(checkpoint="latest", log_root=str(tmp_path)))
    folder = create_run_folder(str(tmp_path), "stub", "Stub-v0", None)
    state = made_state(2, 1.0, circumstances={"algorithm": "ppo"})
    path = save_with_state(folder, "a.txt", lambda path: path.write_text("stub"), state)
    for choice in ("latest", "best"):
        assert config(checkpoint=choice, log_root=str(tmp_path)).checkpoint == str(path)
    # Rank 1 of torchrun leaves the choice to rank 0.
    joined = config(TORCHRUN, checkpoint="latest", log_root=str(tmp_path), distributed=True)
    assert joined.checkpoint == "latest"
    nodes = {**RANKS, "nnodes": 2, "node_rank": 1}
    assert config(checkpoint="latest", log_root=str(tmp_path), **nodes).checkpoint == "latest"
    # Three iterations by default, of which two are done.
    check_said(refused(checkpoint="latest", log_root=str(tmp_path), max_iterations=2))
    assert config(checkpoint="latest", log_root=str(tmp_path), max_iterations=2, algorithm="sac")
    # Of another framework.
    state = made_state(2, 1.0, circumstances={"algorithm": "ppo", "framework": "jax"})
    path = save_with_state(folder, "a.txt", lambda path: path.write_text("stub"), state)
    check_said(refused(checkpoint="latest", log_root=str(tmp_path)))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, "and control characters") for name in ("a\nb", "a\x1b[2Jb", "a\u202eb", "\t")),
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
    check_said(capsys.readouterr().err)


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
        with says(UsageError):
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
