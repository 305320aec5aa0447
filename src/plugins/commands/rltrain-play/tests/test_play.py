"""`rltrain play`: who acts, what is shown and told, what the viewer's user asks for, mistakes."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import stub_parts

import rltrain
from rltrain.cli import main
from rltrain.errors import EndedBySignal, UsageError
from rltrain.plugins.registry import discover
from rltrain.policies.session import open_session
from rltrain.policies.trained import find_trained, plan_policy
from rltrain.runs import Run
from rltrain.specs import SuiteSpec
from rltrain_play import following
from rltrain_play.agents import RandomAgent, ZeroAgent
from rltrain_play.following import Follower
from rltrain_play.playing import Player
from rltrain_play.viewers import choosing
from rltrain_play.viewers.controls import Controls


@pytest.fixture
def run(stub):
    """The run folder of a training that has saved one checkpoint."""
    folder = Path(rltrain.train(**stub.OPTIONS).run_dir)
    stub.EVENTS.clear()
    return folder


@pytest.fixture
def session(run):
    plan = plan_policy(find_trained(str(run), None, {"num_envs": 2}))
    with open_session(plan.config, plan.world, plan.registry) as session:
        yield session


class Watching:
    """A viewer without eyes: calls `act` with itself, each time that it is to show something."""

    place = "nowhere"

    def __init__(self, num_envs, act=lambda viewer: None):
        self.controls = Controls(num_envs, real_time=False)
        self.shown, self.open, self._act = [], True, act

    def is_open(self):
        return self.open

    def show(self, status):
        self.shown.append(status)
        self._act(self)

    def close(self):
        self.open = False


@pytest.fixture
def play(session):
    """Play; return what was played, and the lines that were told."""

    def run(steps, viewer=None, controls=None, follower=None):
        lines = []
        player = Player(
            session,
            session.load_policy(),
            "last.txt",
            tell=lines.append,
            controls=viewer.controls if viewer else controls or Controls(2, real_time=False),
            viewer=viewer,
            follower=follower,
        )
        player.played.all = player.play(session.reset(0), steps)
        return player.played, lines

    return run


# What is told


def test_each_episode_is_told_and_all_are_summed_up(run, capsys):
    assert main(["play", str(run), "--steps", "6", "--num-envs", "2"]) == 0
    out = capsys.readouterr().out.splitlines()
    # The stub's environments end after 2 and 3 steps.
    assert out == [
        "no viewer: the suite stubs does not render its environments.",
        "playing Stub-v0: stub ppo, last.txt, iteration 3, 2 environment(s)",
        f"run folder {run}",
        "episode 1  environment 0  return 2.00  length 2",
        "episode 2  environment 1  return 3.00  length 3",
        "episode 3  environment 0  return 2.00  length 2",
        "episode 4  environment 0  return 2.00  length 2",
        "episode 5  environment 1  return 3.00  length 3",
        "6 steps, 5 episode(s), mean return 2.40, mean length 2.4",
    ]
    assert os.listdir() == ["logs"]


def test_success_is_told(session, play, monkeypatch):
    step, info = stub_parts.StubEnv.step, {"success": np.array([True, False])}
    monkeypatch.setattr(
        stub_parts.StubEnv, "step", lambda self, actions: (*step(self, actions)[:4], info)
    )
    played, lines = play(3)
    assert [line.split()[-1] for line in lines] == ["success", "failure"]
    assert played.summary().endswith("success 50 %")


@pytest.mark.parametrize("agent", ["zero", "random"])
def test_no_checkpoint_is_needed_for_other_agents(run, stub, capsys, agent):
    (run / "checkpoints.json").unlink()
    assert main(["play", str(run), "--agent", agent, "--viewer", "none", "--steps", "2"]) == 0
    task = ["--task", "Stub-v0", "--library", "stub", "--framework", "numpy", "--backend", "stub"]
    words = ["play", *task[:6], "--agent", agent, "--viewer", "none", "--steps", "2"]
    assert main(words) == 0
    assert capsys.readouterr().out.count(f"Stub-v0: {agent} actions, 1 environment(s)") == 2
    assert not any("load" in str(event) for event in stub.EVENTS)


def test_zeros_and_random_actions_are_of_the_space(session):
    assert ZeroAgent(session).act(None).tolist() == [[0.0], [0.0]]
    one, same = (RandomAgent(session, seed=3) for _ in range(2))
    actions = one.act(None)
    assert (abs(actions) <= 1).all()
    assert (actions.shape, actions.dtype) == ((2, 1), np.float32)
    assert actions[0] != actions[1]
    np.testing.assert_array_equal(actions, same.act(None))


# Viewers


@pytest.mark.timeout(30)
def test_the_user_of_a_viewer_pauses_steps_and_resets(session, play, monkeypatch):
    monkeypatch.setattr("rltrain_play.playing._SHOWN", 0.0)

    def act(viewer):
        controls, status = viewer.controls, viewer.shown[-1]
        if status.step == 1 and not controls.paused:
            controls.press("space")
            controls.press("right")
        elif status.step == 2 and len(session.env.seeds) == resets:
            controls.press("backspace")
        elif status.step == 2:
            viewer.close()

    resets = len(session.env.seeds) + 1
    viewer = Watching(2, act)
    played, _ = play(None, viewer)
    assert (played.steps, len(session.env.seeds)) == (2, resets + 1)
    assert (viewer.shown[-1].length, viewer.shown[-1].pace) == (0, "paused")


def test_the_status_is_that_of_the_environment_looked_at(play, monkeypatch):
    monkeypatch.setattr("rltrain_play.playing._SHOWN", 0.0)
    viewer = Watching(2)
    viewer.controls.look(1)
    play(2, viewer)
    # Environment 0 has ended an episode, 1 has not.
    assert dict(viewer.shown[-1].lines()) == {
        **{"agent": "last.txt", "environment": "1", "return": "2.00", "length": "2"},
        **{"finished": "1, mean return 2.00", "step": "2, as fast as possible"},
    }


def test_keys_change_speed_and_environment():
    controls = Controls(3)
    for key in "===t.":
        controls.press(key)
    assert (controls.speed, controls.real_time, controls.environment) == (8.0, False, 1)
    for key in "--,,x":
        controls.press(key)
    controls.press("=")
    assert (controls.speed, controls.environment) == (4.0, 2)


def test_real_time_takes_as_long_as_the_simulation(session, play):
    session.env.step_dt = 0.05
    began = time.monotonic()
    play(10, controls=Controls(2))
    assert time.monotonic() - began >= 0.45
    began = time.monotonic()
    play(10, controls=Controls(2, speed=8.0))
    assert time.monotonic() - began < 0.4


def test_ctrl_c_ends_with_a_summary(session, play):
    viewer = Watching(2, lambda viewer: os.kill(os.getpid(), signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)
    # The first picture comes before anything can be interrupted.
    viewer._act = lambda _: setattr(viewer, "_act", lambda _: os.kill(os.getpid(), signal.SIGINT))
    played, _ = play(None, viewer)
    assert (played.steps >= 1, played.all) == (True, True)
    assert signal.getsignal(signal.SIGINT) is before


def press(*numbers):
    """Return what a viewer does at its second picture: the first comes before all handlers."""

    def second(viewer):
        for number in numbers:
            os.kill(os.getpid(), number)

    return lambda viewer: setattr(viewer, "_act", second)


def test_ctrl_c_before_the_steps_are_done_is_told_apart(play):
    played, _ = play(10**9, Watching(2, press(signal.SIGINT)))
    assert not played.all


def test_a_request_that_comes_twice_is_one(play):
    """timeout(1) sends it to the command, and to all of its group."""
    with pytest.raises(EndedBySignal) as caught:
        play(None, Watching(2, press(signal.SIGTERM, signal.SIGTERM)))
    assert caught.value.exit_code == 143


@pytest.mark.parametrize(
    ("asked", "draws", "display", "viser", "chosen"),
    [
        ("auto", True, True, True, "native"),
        ("auto", True, False, True, "viser"),
        ("auto", True, False, False, "none: there is no display here, and viser is not installed"),
        ("auto", False, True, True, "none: the suite stubs does not render its environments"),
        ("none", False, False, False, "none"),
        ("native", True, True, False, "native"),
        ("native", True, False, True, "there is no display here .* Or give --viewer viser or none"),
        ("viser", True, True, False, r"not installed: pip install \"rltrain\[viewer\]\""),
        ("viser", False, True, True, "does not render its environments. Or give --viewer none"),
    ],
)
def test_the_viewer_is_the_best_that_works_here(
    stub, monkeypatch, asked, draws, display, viser, chosen
):
    import dataclasses

    found = object() if viser else None
    monkeypatch.setattr(choosing.importlib.util, "find_spec", lambda name: found)
    suite = dataclasses.replace(discover().get(SuiteSpec, "stubs"), renders=draws)
    environ = {"DISPLAY": ":0"} if display else {}
    try:
        name, note = choosing.choose_viewer(asked, suite, environ)
        text = f"{name}: {note.removeprefix('no viewer: ')}" if note else name
    except UsageError as error:
        text = str(error)
    assert re.search(chosen, text)


# Following


@pytest.fixture
def eager(monkeypatch):
    """A follower that looks at once."""
    monkeypatch.setattr(following, "_INTERVAL", 0.0)


def save(run, name, iteration):
    (run / "checkpoints" / name).write_text(f"stub {iteration}")
    index = run / "checkpoints.json"
    entries = json.loads(index.read_text()) if index.exists() else []
    entries.append({"name": name, "iteration": iteration, "episode_return": None})
    index.write_text(json.dumps(entries))


def shown(found):
    return found.path, found.iteration


def test_a_follower_gives_each_new_checkpoint_once(run, eager):
    follower = Follower(Run(run))
    assert shown(follower.look()) == (run / "checkpoints" / "last.txt", 3)
    assert follower.look() is None
    save(run, "next.txt", 4)
    save(run, "newest.txt", 5)
    assert shown(follower.look()) == (run / "checkpoints" / "newest.txt", 5)
    assert follower.look() is None


def test_a_follower_waits_for_the_first_checkpoint(run, eager):
    (run / "checkpoints.json").unlink()
    follower = Follower(Run(run))
    assert follower.look() is None
    save(run, "first.txt", 1)
    assert shown(follower.wait()) == (run / "checkpoints" / "first.txt", 1)


def test_the_disk_is_looked_at_once_a_second(run):
    follower = Follower(Run(run))
    assert follower.look() is not None
    save(run, "next.txt", 4)
    assert follower.look() is None


def test_a_new_checkpoint_begins_new_episodes(run, play, eager):
    follower = Follower(Run(run))
    assert follower.look() is not None
    (run / "checkpoints" / "last.txt").rename(run / "checkpoints" / "newer.txt")
    save(run, "newer.txt", 4)
    viewer = Watching(2)
    _, lines = play(1, viewer, follower=follower)
    assert lines == ["checkpoint newer.txt, iteration 4"]
    assert viewer.shown[1].agent == "newer.txt, iteration 4"


@pytest.mark.parametrize(
    "words",
    [["--task", "Stub-v0", "--log_root", "{root}"], ["--checkpoint", "{run}/checkpoints/3"]],
)
def test_a_run_is_found_as_isaac_lab_writes_it(run, capsys, words):
    """It has no RUN: the newest of a task, or a checkpoint."""
    (last,) = (run / "checkpoints").glob("last*")
    last.with_name("3").write_bytes(last.read_bytes())
    words = [word.format(run=run, root=run.parents[2]) for word in words]
    assert main(["play", *words, "--rl_library", "stub", "--steps", "2"]) == 0
    assert str(run) in capsys.readouterr().out


# Mistakes


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere"], "nowhere: is not there"),
        ([], "Name a RUN: a run folder, a checkpoint, or latest"),
        (["--task", "Stub-v0", "--log-root", "none"], "latest: no such run below none"),
        (["Stub-v0", "--log-root", "none"], "latest: no such run below none"),
        (["Stubb-v0", "--log-root", "none"], "Stubb-v0: is not there"),
        (["--train_env_cfg"], "Name a RUN"),
        (["{run}", "--logger", "wandb"], "--logger: nothing is logged. Leave it out."),
        (["{run}", "--max_steps", "9"], "--max-steps: play counts steps. Give --steps N."),
        (["--checkpoint", "pretrained"], "rltrain downloads nothing. `isaaclab play --checkpoint"),
        (["--agent", "zero"], "--agent zero: name a RUN, or a task"),
        (["{run}", "--agent", "zero", "--follow"], "--follow and --agent zero contradict"),
        (["{run}", "--agent", "random", "--checkpoint", "3"], "--checkpoint and --agent random"),
        (["{run}", "--follow", "--checkpoint", "3"], "--follow and --checkpoint contradict"),
        (["{run}/checkpoints/last.txt", "--follow"], "is a checkpoint. Name the run folder"),
        (["{run}", "--video"], "--video: the suite stubs does not render its environments"),
        (["{run}", "--viewer", "viser"], "--viewer viser: the suite stubs does not draw"),
        (["{run}", "--viewer", "x"], "--viewer x: must be "),
        (["{run}", "--steps", "0"], "--steps 0: must be at least 1"),
        (["{run}", "--library", "other"], "--library other: the run"),
        (["--task", "Gone-v0", "--agent", "zero"], "Unknown task 'Gone-v0'"),
        (["{run}", "env.mass=2"], "env.mass"),
    ],
)
def test_a_mistake_ends_with_status_2(run, capsys, words, says):
    assert main(["play", *(word.format(run=run) for word in words)]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err


def test_a_half_written_checkpoint_is_refused(run, capsys):
    checkpoint = run / "checkpoints" / "last.txt"
    checkpoint.write_text("st")
    for words in ([str(run)], [str(checkpoint)]):
        assert main(["play", *words]) == 2
    err = capsys.readouterr().err
    assert "passing over" in err
    assert "is damaged: last.txt is not what was written" in err


def test_it_is_one_process_whatever_has_started_it(run, capsys, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert main(["play", str(run), "--steps", "1"]) == 0
    assert "1 steps, 0 episode(s)" in capsys.readouterr().out
