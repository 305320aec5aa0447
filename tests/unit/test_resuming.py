"""`--resume RUN`: the options of a run and its newest checkpoint; options beside it win."""

from __future__ import annotations

import json
import os

import pytest
from helpers import refusal
from made_up_runs import begun_run
from messages import check_said, says

from rltrain.cli.train import read_options
from rltrain.errors import UsageError
from rltrain.files.dotted import flatten
from rltrain.files.reading import digest
from rltrain.options.run import RunOptions
from rltrain.plan.files import with_options_of_run
from rltrain.plan.resolve import make_plan
from rltrain.run.agreement import agree
from rltrain.run.group import SingleProcess
from rltrain.storage.manifest import write_config
from rltrain.storage.run_folder import create_run_folder


@pytest.fixture
def begun(stub, tmp_path):
    where = {**stub.OPTIONS, "log_root": str(tmp_path / "logs")}
    return lambda *iterations, **options: begun_run(*iterations, **{**where, **options})


def refused(**options) -> str:
    return refusal(make_plan, options, {})


def resumed(run, **options):
    return make_plan({"resume": str(run), **options}, {}).config


GIVEN = {
    "algorithm": "sac",
    "agent": {"learn.rate": 0.5, "model": {"units": [3]}},
    "env": {"gravity": 1.6},
    "num_envs": 3,
    "seed": 5,
    "run_name": "mine",
    "checkpoint_interval": 2,
    "keep": 3,
    "writers": ["notes", "more_notes"],
    "observers": ["watcher"],
}


def test_everything_that_the_user_gave_is_kept(begun):
    run = begun(1, 2, **GIVEN)
    config = resumed(run)
    assert (config.checkpoint, config.resume) == (str(run / "checkpoints/2.txt"), str(run))
    before = json.loads((run / "manifest.json").read_text())["config"]
    changed = {"checkpoint": config.checkpoint, "resume": str(run)}
    changed |= {"agent_config": str(run / "agent.yaml"), "given": {}}
    assert json.loads(json.dumps(vars(config))) == before | changed


def test_ranks_and_places_are_kept_but_neither_trust_nor_how_the_run_was_started(begun):
    where = {"distributed": True, "nproc_per_node": 2, "launcher": "stub_launcher"}
    more = {"auto_resume": True, "run_name": "mine", "trust": True}
    config = resumed(begun(1, **where, **more, max_restarts=2))
    assert not config.trust
    assert not config.auto_resume
    assert (config.nproc_per_node, config.launcher, config.max_restarts) == (2, "stub_launcher", 2)


def test_options_beside_it_win(begun):
    run = begun(1, **GIVEN)
    given = {"agent": {"learn.rate": 0.1}, "env": {}, "total_envs": 4, "keep": None}
    config = resumed(run, max_iterations=9, **given)
    assert (config.max_iterations, config.total_envs, config.num_envs) == (9, 4, 4)
    agent = dict(flatten(dict(config.agent)))
    assert (agent["learn.rate"], agent["model.units"]) == (0.1, [3])
    assert (config.env, config.keep) == ({"gravity": 1.6}, 3)


def test_a_checkpoint_of_a_run_and_the_latest_run(begun, tmp_path):
    first = begun(1, 2)
    second = begun(1, algorithm="sac")
    begun()  # Has saved nothing.
    os.utime(first / "checkpoints.json", (1, 1))
    checkpoint = first / "checkpoints/1.txt"
    assert resumed(checkpoint).checkpoint == str(checkpoint)
    log_root = str(tmp_path / "logs")
    assert resumed("latest", log_root=log_root).resume == str(second)
    named = resumed("latest", log_root=log_root, library="stub", task="Stub-v0")
    assert named.resume == str(second)
    os.utime(second / "checkpoints.json", (0, 0))
    assert resumed("latest", log_root=log_root).resume == str(first)


@pytest.mark.parametrize("words", [{}, {"checkpoint": "latest"}, {"auto_resume": True}])
@pytest.mark.parametrize("trusted", [False, True])
def test_a_checkpoint_is_hashed_once_in_a_process(begun, stub, monkeypatch, words, trusted):
    hashed = []

    def hash_it(path, limit):
        hashed.append(path)
        return digest(path, limit)

    run = begun(1, run_name="mine")
    monkeypatch.setattr("rltrain.storage.checkpoint.digest", hash_it)
    again = {**stub.OPTIONS, "log_root": str(run.parents[2]), "run_name": "mine", **words}
    options = again if words else {"resume": str(run)}
    plan = make_plan({**options, "trust": trusted, "max_iterations": 9}, {})
    checkpoint = agree(SingleProcess("cpu"), plan.config, 9, plan.checkpoint).checkpoint
    assert checkpoint.state["iteration"] == 1
    assert hashed == [run / "checkpoints" / "1.txt"]


def test_a_run_folder_that_was_moved_and_relative_paths(begun, tmp_path):
    run = begun(1, log_root="logs")
    moved = run.rename(tmp_path / "moved")
    config = resumed(moved, trust=True)
    assert config.agent_config == str(moved / "agent.yaml")
    assert config.log_root == str(tmp_path / "work/logs")
    # Without trust, no path is taken.
    config = resumed(moved)
    assert config.agent_config == str(moved / "agent.yaml")
    assert config.log_root == "logs"


def test_what_goes_on_can_be_gone_on_with(begun, tmp_path):
    run = begun(1)
    config = resumed(run, max_iterations=9)
    again = create_run_folder(config.log_root, "stub", "Stub-v0", None)
    write_config(again, config)
    # `--config` repeats it.
    file = {"config": str(again.path / "config.yaml")}
    repeated = make_plan(read_options({**file, "trust": True}, []), {}).config
    assert (repeated.checkpoint, repeated.resume) == (config.checkpoint, None)
    with pytest.raises(UsageError, match=r"the run began from .* give --checkpoint"):
        read_options(file, [])
    typed = read_options({**file, "checkpoint": config.checkpoint}, [])
    assert make_plan(typed, {}).config.checkpoint == config.checkpoint
    with says(UsageError):
        resumed(again.path)
    # The library of train_multigpu gives way to that of the run.
    assert "library" not in read_options({"default_library": "rsl_rl", "resume": "latest"}, [])


def test_a_wrong_run_is_refused(begun, tmp_path):
    run, empty = begun(1), begun()
    check_said(refused(resume="nowhere"))
    check_said(refused(resume=300 * "x"))
    os.mkfifo(tmp_path / "pipe")
    check_said(refused(resume=tmp_path / "pipe"))
    check_said(refused(resume=str(empty)))
    for other in (tmp_path, run / "checkpoints", run / "manifest.json"):
        check_said(refused(resume=str(other)))
    alone = tmp_path / "a" / "file.txt"
    alone.parent.mkdir()
    alone.write_text("stub")
    check_said(refused(resume=str(alone)))
    check_said(refused(resume="latest", log_root=str(tmp_path / "none")))
    (run / "config.yaml").write_text("[")
    assert "does not parse as YAML" in refused(resume=str(run))
    (run / "config.yaml").unlink()
    assert "config.yaml is missing" in refused(resume=str(run))


def test_what_contradicts_it_is_refused(begun):
    run = str(begun(1))
    for other in ({"checkpoint": "latest"}, {"auto_resume": True}):
        message = refused(resume=run, **other)
        assert message.startswith(
            f"--resume and --{next(iter(other)).replace('_', '-')} contradict"
        )
    scheduler = {"launcher": "scheduler", "nproc_per_node": 2}
    check_said(refused(resume=run, **scheduler))


def test_options_of_plugins_are_kept_and_may_be_changed(begun):
    of_plugin = {"scheduler.queue": "long", "scheduler.cores": 7}
    run = begun(1, launcher="scheduler", nproc_per_node=2, **of_plugin)
    for changed in ({"scheduler.queue": "short"}, {"plugins": {"scheduler": {"queue": "short"}}}):
        found = RunOptions.from_mapping(with_options_of_run({"resume": str(run), **changed})[0])
        assert found.plugins == {"scheduler": {"queue": "short", "cores": 7}}
