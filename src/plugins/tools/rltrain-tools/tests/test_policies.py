"""What was trained: found, loaded without training, and evaluated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import stub_parts
from messages import check_said, says

from rltrain.cli import main
from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.plan.resolve import make_plan
from rltrain.plugins.registry import discover
from rltrain.policies.session import open_session
from rltrain.policies.trained import find_trained, plan_policy
from rltrain.specs import SuiteSpec
from rltrain.types import World
from rltrain_play.episodes import Block, Episode, make_blocks, play_block
from rltrain_play.evaluating import Evaluation
from rltrain_play.statistics import summarize


@pytest.fixture
def session(run):
    plan = plan_policy(find_trained(str(run), None, {"num_envs": 3}))
    with open_session(plan.config, plan.world, plan.registry) as session:
        yield session


# Finding


def test_of_plugins_options_those_of_the_library_and_the_suite_are_the_policys(run):
    config = run / "config.yaml"
    config.write_text(f"{config.read_text()}stub:\n  size: 1\nconsole:\n  width: 2\n")
    options = find_trained(str(run), None, {"trust": True}).options
    assert options["stub.size"] == 1
    assert "console.width" not in options


@pytest.mark.parametrize("choice", [None, "latest", "best", "3"])
def test_a_run_has_its_own_options_and_checkpoints(run, choice):
    if choice == "best":  # No episode's return was worth one: give the index one.
        index = json.loads((run / "checkpoints.json").read_text())
        (run / "checkpoints.json").write_text(json.dumps([{**index[0], "episode_return": 1.0}]))
    trained = find_trained(str(run), choice, {})
    assert trained.checkpoint.path == run / "checkpoints" / "last.txt"
    assert trained.run == run
    options = trained.options
    assert (options["library"], options["task"]) == ("stub", "Stub-v0")
    assert options["env"] == {"gravity": 1.5}
    assert not {"num_envs", "seed", "writers", "log_root"} & set(options)
    assert plan_policy(trained).config.env == {"gravity": 1.5}


def test_latest_is_the_newest_run(run):
    assert find_trained("latest", None, {}).run == run
    with says(UsageError):
        find_trained("latest", None, {"library": "other"})


def test_a_checkpoint_in_a_run_folder_has_its_runs_options(run):
    trained = find_trained(str(run / "checkpoints" / "last.txt"), None, {"env": {"gravity": 2}})
    assert trained.run == run
    assert trained.options["env"] == {"gravity": 2}
    assert [str(each) for each in trained.all_checkpoints()] == [str(trained.checkpoint)]


def test_a_file_of_a_librarys_own_script_needs_its_options(run, tmp_path):
    native = tmp_path / "native" / "nn" / "model.txt"
    native.parent.mkdir(parents=True)
    native.write_text("stub")
    with says(UsageError):
        find_trained(str(native), None, {})
    given = {"library": "stub", "task": "Stub-v0", "framework": "numpy"}
    with says(UsageError):
        plan_policy(find_trained(str(native), None, given))
    native.write_text("another")
    with says(UsageError):
        plan_policy(find_trained(str(native), None, given))
    native.write_text("stub")
    beside = native.parent.parent / "params" / "agent.yaml"
    beside.parent.mkdir()
    beside.write_bytes((run / "agent.yaml").read_bytes())
    trained = find_trained(str(native), None, given)
    assert trained.run is None
    assert Path(trained.options["agent_config"]).samefile(beside)


def test_a_file_alone_has_the_options_that_its_task_is_registered_with(
    run, tmp_path, monkeypatch, capsys
):
    """As for Isaac Lab's own `play`."""
    native = tmp_path / "pretrained.txt"
    native.write_bytes((run / "checkpoints" / "last.txt").read_bytes())
    suite = discover().get(SuiteSpec, "stubs")
    monkeypatch.setitem(vars(suite), "tuned", lambda task, *_: {"learn": {"rate": 7.0}})
    given = {"library": "stub", "task": "Stub-v0", "framework": "numpy"}
    plan = plan_policy(find_trained(str(native), None, given))
    assert plan.config.agent["learn"]["rate"] == 7.0
    check_said(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("named", "choice", "given"),
    [
        (".", None, {}),
        ("{run}", "9", {}),
        ("{run}", "./gone.txt", {}),
        ("{run}/checkpoints/last.txt", "best", {}),
        pytest.param("x" * 300, None, {}, id="endless"),
    ],
)
def test_what_is_not_there_is_named(run, named, choice, given):
    with says(UsageError):
        plan_policy(find_trained(named.format(run=run), choice, given))


@pytest.mark.parametrize("named", ["{run}", "{run}/checkpoints/last.txt"])
def test_another_task_is_played_with_the_runs_options(run, named, capsys):
    """Such as a variant for playing, `-Play`, of which Isaac Lab 2 has one for each task."""
    trained = find_trained(named.format(run=run), None, {"task": "StubOpen-v0"})
    check_said(capsys.readouterr().err)
    config = plan_policy(trained).config
    assert (config.task, config.env) == ("StubOpen-v0", {"gravity": 1.5})
    assert trained.run == run


# Planning and loading


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: (run / "checkpoints" / "last.txt").write_text("cut"),
        lambda run: (run / "agent.yaml").write_text("other: 1"),
        lambda run: (run / "config.yaml").write_text("library: gone"),
    ],
)
def test_a_damaged_run_is_refused(run, damage):
    damage(run)
    with says(UsageError):
        plan_policy(find_trained(str(run), None, {}))


@pytest.fixture
def playing(monkeypatch):
    """Declare the suite's options for playing."""
    suite = discover().get(SuiteSpec, "stubs")
    monkeypatch.setitem(vars(suite), "play_overrides", {"gravity": 9.0})


@pytest.mark.parametrize(("given", "gravity"), [({}, 9.0), ({"gravity": 2}, 2)])
def test_a_task_is_played_as_its_suite_says_unless_the_user_does(
    run, playing, capsys, given, gravity
):
    plan = plan_policy(find_trained(str(run), None, {"env": given}))
    assert plan.config.env == {"gravity": gravity}
    check_said(capsys.readouterr().err)


def test_a_task_without_a_configuration_for_playing_is_told(run, playing, monkeypatch, capsys):
    suite = discover().get(SuiteSpec, "stubs")
    monkeypatch.setitem(vars(suite), "cannot_play", lambda task: f"{task.name} as it is trained")
    assert plan_policy(find_trained(str(run), None, {})).config.env == {}
    check_said(capsys.readouterr().err)


def test_training_does_not_play(run, stub, playing):
    assert make_plan({**stub.OPTIONS}).config.env == {}
    resumed = make_plan({"resume": str(run), "max_iterations": 9})
    assert resumed.config.env == {"gravity": 1.5}


def test_a_policy_that_does_not_fit_the_task_as_it_is_played_says_so(run, playing, monkeypatch):
    def refuse(self, session):
        raise UsageError("does not fit.")

    monkeypatch.setattr(stub_parts.StubLibrary, "rltrain_load_policy", hookimpl(refuse))
    for env in ({}, {"gravity": 1}):
        plan = plan_policy(find_trained(str(run), None, {"env": env}))
        with (
            open_session(plan.config, plan.world, plan.registry) as session,
            says(UsageError),
        ):
            session.load_policy()


def test_a_session_loads_without_training(session, stub):
    policy = session.load_policy()
    assert (session.group.world_size, session.env.num_envs) == (1, 3)
    assert policy.groups == ("policy",)
    assert stub.EVENTS == ["seed environment", "make_env", "seed model", "load last.txt"]


def test_a_library_that_loads_no_policy_is_named(session, monkeypatch):
    hook = session._plugins.hook.rltrain_load_policy
    monkeypatch.setattr(type(hook), "get_hookimpls", lambda self: [])
    with says(UsageError):
        session.load_policy()


# Episodes


def test_each_environment_plays_one_episode_of_a_block(session, stub):
    policy = session.load_policy()
    stub.EVENTS.clear()
    episodes = play_block(session, policy, Block(seed=5, number=2))
    # The stub's environments end after 2, 3 and 4 steps: the first one would have played two.
    assert episodes == [Episode(5, 6 + i, 2.0 + i, 2 + i, None) for i in range(3)]
    assert session.env.seeds[-1] == Block(5, 2).environment_seed
    assert stub.EVENTS[:2] == ["seed environment", ("forget", None)]
    assert ("forget", [True, False, False]) in stub.EVENTS


def test_blocks_hold_at_least_the_episodes(session):
    blocks = make_blocks([0, 1], episodes=7, num_envs=3)
    assert blocks == [Block(seed, number) for seed in (0, 1) for number in range(3)]
    assert len({block.environment_seed for block in blocks}) == 6


@pytest.mark.parametrize(
    ("key", "info"),
    [
        (None, {"success": np.array([True, False, True])}),
        ("goal", {"goal": np.array([1.0, 0.0, 1.0])}),
        ("metrics.goal", {"final_info": {"metrics": {"goal": np.array([[1], [0], [1]])}}}),
    ],
)
def test_success_is_what_the_infos_say(session, monkeypatch, key, info):
    step = stub_parts.StubEnv.step
    monkeypatch.setattr(
        stub_parts.StubEnv, "step", lambda self, actions: (*step(self, actions)[:4], info)
    )
    episodes = play_block(session, session.load_policy(), Block(0, 0), key)
    assert [each.success for each in episodes] == [True, False, True]


def test_a_key_that_is_not_there_is_named(session, monkeypatch):
    step, info = stub_parts.StubEnv.step, {"log": {"x": 1.0}, "won": np.zeros(3)}
    monkeypatch.setattr(
        stub_parts.StubEnv, "step", lambda self, actions: (*step(self, actions)[:4], info)
    )
    with says(UsageError):
        play_block(session, session.load_policy(), Block(0, 0), "goal")


def test_an_episode_without_an_end_is_named(session, monkeypatch):
    monkeypatch.setattr("rltrain_play.episodes.LONGEST", 3)
    with says(UsageError):
        play_block(session, session.load_policy(), Block(0, 0))


# Statistics and the command


def test_statistics_are_those_of_scipy():
    data = [0.0, 0.0, 2.0, 3.0, 4.0, 5.0, 60.0, 1000.0]
    found = summarize(data)
    assert found.mean == 134.25
    assert found.iqm == 3.5  # Of 2, 3, 4, 5.
    assert found.std == pytest.approx(350.4017, abs=1e-4)  # scipy.stats.tstd
    # scipy.stats.bootstrap with 200,000 resamples.
    assert found.mean_interval == pytest.approx((1.875, 384.0), rel=0.02)
    assert found.iqm_interval == pytest.approx((1.0, 267.25), rel=0.02)
    assert (found.least, found.greatest) == (0.0, 1000.0)
    assert found == summarize(data)
    assert summarize([2.0, 2.0]).mean_interval == (2.0, 2.0)
    assert (summarize([True]).mean, summarize([True]).std) == (1.0, 0.0)


def test_ranks_on_several_nodes_share_the_blocks():
    blocks = tuple(Block(0, number) for number in range(5))
    worlds = [World(rank, rank % 2, rank // 2, 4, 2, 2) for rank in range(4)]
    shares = [Evaluation((), blocks).share(world) for world in worlds]
    assert [[block.number for block in share] for share in shares] == [[0, 4], [1], [2], [3]]


def test_evaluate_prints_a_table_and_json(run, capsys):
    command = ["evaluate", str(run), "--episodes", "4", "--num-envs", "3", "--seeds", "1", "2"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert f"{run.name}/last.txt  3          12" in out
    assert "3.00 [2.58, 3.42]" in out
    check_said(err)
    assert main([*command, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["iteration"], found["episodes"], len(found["each"])) == (3, 12, 12)
    assert found["each"][0] == {
        "seed": 1,
        "environment": 0,
        "episode_return": 2.0,
        "length": 2,
        "success": None,
    }
    assert found["digest"]
    assert found["env"] == {"gravity": 1.5}


@pytest.mark.parametrize("episodes", ["2", "26"])
def test_environments_are_25_or_as_many_as_episodes(run, capsys, episodes):
    assert main(["evaluate", str(run), "--episodes", episodes]) == 0
    check_said(capsys.readouterr().err)
