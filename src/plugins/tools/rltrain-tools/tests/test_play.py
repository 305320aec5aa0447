"""`rltrain play`: who acts, what is shown and printed, what users of viewers ask for."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import stub_parts
from messages import check_said

from rltrain.cli import main
from rltrain.errors import UsageError
from rltrain.plugins.registry import discover
from rltrain.policies.session import open_session
from rltrain.policies.trained import find_trained, plan_policy
from rltrain.specs import SuiteSpec
from rltrain_play.playing import Player, Untrained
from rltrain_play.viewers import controls
from rltrain_play.viewers.controls import Controls


@pytest.fixture
def session(run):
    plan = plan_policy(find_trained(str(run), None, {"num_envs": 2}))
    with open_session(plan.config, plan.world, plan.registry) as session:
        yield session


class Watching:
    """A viewer without eyes: calls `act` with itself, each time that it is to show something."""

    place = "nowhere"

    def __init__(self, num_envs, act=lambda viewer: None):
        self.controls = Controls(num_envs)
        self.shown, self.open, self._act = [], True, act

    def is_open(self):
        return self.open

    def show(self, lines):
        self.shown.append(dict(lines))
        self._act(self)

    def close(self):
        self.open = False


@pytest.fixture
def play(session):
    """Play; return the player, whether that was all, and the lines that were printed."""

    def run(steps, viewer=None, real_time=False):
        lines = []
        player = Player(
            session,
            session.load_policy(),
            "last.txt",
            report=lines.append,
            viewer=viewer,
            real_time=real_time,
        )
        return player, player.play(session.reset(0), steps), lines

    return run


# What is printed


def test_each_episode_is_printed_and_all_are_summed_up(run, capsys):
    assert main(["play", str(run), "--steps", "6", "--num-envs", "2"]) == 0
    check_said(capsys.readouterr().out)  # The stub's environments end after 2 and 3 steps.
    assert os.listdir() == ["logs"]


def test_success_is_printed(session, play, monkeypatch):
    step, info = stub_parts.StubEnv.step, {"success": np.array([True, False])}
    monkeypatch.setattr(
        stub_parts.StubEnv, "step", lambda self, actions: (*step(self, actions)[:4], info)
    )
    player, _, lines = play(3)
    assert [line.split()[-1] for line in lines] == ["success", "failure"]
    assert player.summary().endswith("success 50 %")


@pytest.mark.parametrize("agent", ["zero", "random"])
def test_no_run_is_needed_for_other_agents(stub, capsys, agent):
    task = ["--task", "Stub-v0", "--library", "stub", "--framework", "numpy"]
    assert main(["play", *task, "--agent", agent, "--viewer", "none", "--steps", "2"]) == 0
    assert f"Stub-v0: {agent} actions, 1 environment(s)" in capsys.readouterr().out
    assert not any("load" in str(event) for event in stub.EVENTS)


def test_zeros_and_random_actions_are_of_the_space(session):
    assert Untrained(session, random=False).act(None).tolist() == [[0.0], [0.0]]
    one, same = (Untrained(session, random=True) for _ in range(2))
    actions = one.act(None)
    assert (abs(actions) <= 1).all()
    assert (actions.shape, actions.dtype) == ((2, 1), np.float32)
    assert actions[0] != actions[1]
    np.testing.assert_array_equal(actions, same.act(None))


# Viewers


@pytest.mark.timeout(30)
def test_the_user_of_a_viewer_pauses_steps_and_resets(session, play, monkeypatch):
    monkeypatch.setattr("rltrain_play.playing._FRAME", 0.0)

    def act(viewer):
        controls, shown = viewer.controls, viewer.shown[-1]
        if shown["step"] == "1":
            controls.pause()
            controls.step()
        elif shown["step"] == "2, paused" and len(session.env.seeds) == resets:
            controls.reset()
        elif shown["step"] == "2, paused":
            viewer.close()

    resets = len(session.env.seeds) + 1
    viewer = Watching(2, act)
    player, *_ = play(None, viewer)
    assert (player.steps, len(session.env.seeds)) == (2, resets + 1)
    assert viewer.shown[-1]["length"] == "0"


def test_the_status_is_that_of_the_environment_shown(play, monkeypatch):
    monkeypatch.setattr("rltrain_play.playing._FRAME", 0.0)
    viewer = Watching(2)
    for by, environment in ((-1, 1), (1, 0), (1, 1)):
        viewer.controls.show_next(by)
        assert viewer.controls.environment == environment
    play(2, viewer)
    # Environment 0 has ended an episode, 1 has not.
    assert viewer.shown[-1] == {
        "agent": "last.txt",
        "environment": "1",
        "return": "2.00",
        "length": "2",
        "finished": "1, mean return 2.00",
        "step": "2",
    }


def test_real_time_takes_as_long_as_the_simulation(session, play):
    session.env.step_dt = 0.05
    began = time.monotonic()
    play(10, real_time=True)
    assert time.monotonic() - began >= 0.45


@pytest.mark.parametrize("steps", [None, 10**9])
def test_ctrl_c_ends_with_a_summary(play, steps):
    """Only before the steps are done it is not all that was to be played."""
    viewer = Watching(2)
    # The first frame comes before anything can be interrupted.
    viewer._act = lambda _: setattr(viewer, "_act", lambda _: os.kill(os.getpid(), signal.SIGINT))
    player, done, _ = play(steps, viewer)
    assert player.steps >= 1
    assert done is (steps is None)


@pytest.mark.parametrize(
    ("asked", "draws", "display", "viser", "chosen"),
    [
        ("auto", True, True, True, "native viser"),
        ("auto", True, True, False, "native"),
        ("auto", True, False, True, "viser"),
        ("auto", True, False, False, "no viewer: there is no display .*, and viser is not install"),
        ("auto", False, True, True, "no viewer: the suite stubs does not render its environments"),
        ("none", False, False, False, "^$"),
        ("native", True, True, False, "native"),
        ("native", True, False, True, "there is no display here .* Or give --viewer viser or none"),
        ("viser", True, True, False, r"not installed: pip install \"rltrain\[viewer\]\""),
        ("viser", False, True, True, "does not render its environments. Or give --viewer none"),
    ],
)
def test_the_viewers_are_those_that_work_here(
    stub, monkeypatch, asked, draws, display, viser, chosen
):
    found = object() if viser else None
    monkeypatch.setattr(controls.importlib.util, "find_spec", lambda name: found)
    suite = dataclasses.replace(discover().get(SuiteSpec, "stubs"), renders=draws)
    environ = {"DISPLAY": ":0"} if display else {}
    try:
        names, note = controls.usable_viewers(asked, suite, environ)
        text = note or " ".join(names)
    except UsageError as error:
        text = str(error)
    assert re.search(chosen, text)


@pytest.mark.parametrize(("asked", "status"), [("native", 2), ("auto", 0)])
def test_frames_are_shown_by_the_page_alone(run, capsys, monkeypatch, asked, status):
    monkeypatch.setattr("rltrain_play.commands.play.usable_viewers", lambda *_: (["native"], ""))
    monkeypatch.setattr("rltrain.policies.with_drawing", lambda plan: plan)
    assert main(["play", str(run), "--viewer", asked, "--steps", "2"]) == status
    check_said("".join(capsys.readouterr()))


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


# Mistakes, and those of `evaluate` and `export`


@pytest.mark.parametrize(
    "line",
    [
        "play nowhere",
        "play",
        "play --task Stub-v0 --log-root none",
        "play Stub-v0 --log-root none",
        "play Stubb-v0 --log-root none",
        "play --train_env_cfg",
        "play {run} --logger wandb",
        "play {run} --max_steps 9",
        "play --checkpoint pretrained",
        "play --agent zero",
        "play {run} --agent zero",
        "play --agent random --checkpoint 3",
        "play {run} --video",
        "play {run} --viewer viser",
        "play {run} --viewer x",
        "play {run} --steps 0",
        "play {run} --library other",
        "play --task gone --agent zero",
        "play {run} env.mass=2",
        "evaluate nowhere",
        "evaluate",
        "evaluate {run} --episodes 0",
        "evaluate {run} --all-checkpoints --checkpoint 3",
        "evaluate {run} --launcher scheduler",
        "evaluate {run} env.mass=2",
        "export {run} --format stubb",
        "export {run} --format stub other --output x.stub",
        "export {run} --output policy.onnx",
        "export {run} --output folder.stub",
        "export {run} --output /proc/no/policy.stub",
        "export {run} --opset 18",
        "export {run} --verify 0",
        "export {run} --checkpoint 9",
    ],
)
def test_a_mistake_ends_with_status_2(run, capsys, line):
    Path("folder.stub").mkdir()
    assert main([word.format(run=run) for word in line.split()]) == 2
    check_said(capsys.readouterr().err)
    assert sorted(os.listdir()) == ["folder.stub", "logs"]
    assert not (run / "exported").exists()


def test_it_is_one_process_whatever_has_started_it(run, capsys, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert main(["play", str(run), "--steps", "1"]) == 0
    check_said(capsys.readouterr().out)
