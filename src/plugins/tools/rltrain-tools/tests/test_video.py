"""Videos of training: which steps they show, which files are written, and who is notified."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import stub_parts
from helpers import run_ranks
from made_up_sessions import session_of

from rltrain.errors import PluginError, UsageError
from rltrain.hookspecs import hookimpl
from rltrain.plugins.manager import RunPlugins
from rltrain.records import Media, RunEnded
from rltrain.run.session import RankSession
from rltrain.testing import make_config
from rltrain.types import World
from rltrain_play.video import recorder
from rltrain_play.video.observer import VideoObserver, VideoOptions
from rltrain_play.video.recorder import Recorder, frames_per_second

ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="videos need the extra rltrain[video]")


def gray(step: int) -> tuple[np.ndarray]:
    """Return a frame of odd size that encodes its step."""
    return (np.full((33, 47, 3), 20 * step, np.uint8),)


@pytest.fixture
def record(tmp_path):
    """Record some steps; return the frames of each video by name, in the order of completion."""

    def run(steps, length, interval, draw=gray):
        finished, now = [], iter(range(steps))
        made = Recorder(
            lambda: draw(next(now)),
            tmp_path,
            length=length,
            interval=interval,
            fps=25.0,
            finished=finished.append,
        )
        for _ in range(steps):
            made.step()
        made.close(), made.close()
        assert sorted(finished) == sorted(tmp_path.iterdir())
        return {path.name: frames(path) for path in finished}

    return run


def frames(path) -> list[int]:
    """Return the steps that the frames show."""
    reader = ffmpeg.read_frames(path)
    next(reader)
    return [round(np.frombuffer(frame, np.uint8).mean() / 20) for frame in reader]


def test_clips_begin_at_their_interval_and_the_last_is_completed(record):
    drawn = iter(range(100))
    videos = record(7, length=3, interval=5, draw=lambda step: gray(next(drawn)))
    # Steps 3 and 4 are not rendered at all.
    assert videos == {"rl-video-step-0.mp4": [0, 1, 2], "rl-video-step-5.mp4": [3, 4]}


def test_a_clip_ends_when_the_next_one_begins(record):
    videos = record(4, length=3, interval=2)
    assert videos == {"rl-video-step-0.mp4": [0, 1], "rl-video-step-2.mp4": [2, 3]}


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        (None, "It returned NoneType"),
        ((), "It returned tuple of NoneType"),
        (gray(0)[0], "It returned ndarray"),
        ((gray(0)[0][..., :2],), r"tuple of uint8 \(33, 47, 2\)"),
        ((gray(0)[0] / 255,), "tuple of float64"),
    ],
)
def test_an_invalid_frame_is_reported(record, drawn, message):
    with pytest.raises(PluginError, match=message):
        record(1, length=3, interval=5, draw=lambda step: drawn)


def test_a_clip_whose_folder_is_gone_does_not_end_the_run(tmp_path):
    finished, folder = [], tmp_path / "videos"
    made = Recorder(
        lambda: gray(1), folder, length=5, interval=5, fps=25.0, finished=finished.append
    )
    for _ in range(5):
        made.step()
    made.step()
    shutil.rmtree(folder)
    made.close()
    assert [path.name for path in finished] == ["rl-video-step-0.mp4"]
    assert not folder.exists()


def test_a_rendering_error_says_what_to_do(record):
    def draw(step):
        raise RuntimeError("no display")

    with pytest.raises(UsageError, match=r"--video, .* RuntimeError: no display.* MUJOCO_GL: egl"):
        record(1, length=3, interval=5, draw=draw)


def test_videos_play_at_the_speed_of_the_environments():
    def of(metadata, **attributes):
        env = types.SimpleNamespace(metadata=metadata, **attributes)
        env.unwrapped = env
        return frames_per_second(env)

    assert of({"render_fps": 50}, step_dt=0.05) == 20.0
    assert of({"render_fps": 50}) == 50.0
    assert of({}) == 30.0


# Videos of a run


class DrawnEnv(stub_parts.StubEnv):
    def render(self):
        return (np.zeros((8, 8, 3), np.uint8),)


class DrawnSuite:
    @hookimpl
    def rltrain_make_env(self, session):
        self.renders = session.renders
        return DrawnEnv(session.config.num_envs)


def recording(group, tmp_path, fails=False, length=3):
    """Return a rank's session that records videos of seven steps, and its suite."""

    def body(session):
        session.env.reset()
        for _ in range(7):
            session.env.step(np.zeros((2, 1)))
        if fails:
            raise ValueError("as asked")

    video = VideoObserver(VideoOptions(length, interval=length + 2))
    plugins = {"suite": DrawnSuite(), "observer": video}
    if group.rank == 0:
        plugins["writer"] = stub_parts.NotesWriter()
    made = session_of(group, body, plugins, log_root=str(tmp_path / "logs"), renders=True)
    return made, plugins["suite"]


@pytest.mark.parametrize("fails", [False, True])
def test_rank_0_records_and_notifies_the_writers(stub, tmp_path, fails):
    def one(group):
        session, suite = recording(group, tmp_path, fails)
        try:
            session.run()
        except ValueError:
            assert fails
        return suite.renders, "step" in vars(session.env.env)

    assert run_ranks(2, one) == [(True, True), (False, False)]
    assert isinstance(stub.RECORDS[-1], RunEnded)
    first, last = (each for each in stub.RECORDS if isinstance(each, Media))
    assert [first.name, last.name] == ["rl-video-step-0", "rl-video-step-5"]
    folder = next((tmp_path / "logs").rglob("videos"))
    assert [str(path) for path in sorted(folder.iterdir())] == [first.path, last.path]


@pytest.mark.parametrize("fails", [False, True])
def test_a_video_that_is_not_written_does_not_hide_what_ended_the_run(
    stub, tmp_path, monkeypatch, fails
):
    def encoder(path, size, fps):
        while True:
            yield

    def one(group):
        with pytest.raises((FileNotFoundError, ValueError)) as caught:
            recording(group, tmp_path, fails, length=20)[0].run()
        return caught.value

    monkeypatch.setattr(recorder, "_encoder", started(encoder))
    (error,) = run_ranks(1, one)
    if fails:
        assert str(error) == "as asked"
    else:
        assert "rl-video-step-0.mp4" in str(error)


def started(generator):
    def start(*arguments):
        made = generator(*arguments)
        next(made)
        return made

    return start


def test_a_run_without_videos_renders_nothing(stub):
    session = RankSession(make_config(num_envs=2), World(), RunPlugins())
    assert not session.renders


def test_mujoco_is_checked_once_for_rendering():
    """In a process of its own: what MuJoCo has failed at once, it ends the process for."""
    pytest.importorskip("mujoco")
    code = (
        "from rltrain.errors import UsageError\n"
        "from rltrain_adapters import check_mujoco_draws\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        check_mujoco_draws()\n"
        "    except UsageError as error:\n"
        "        assert 'MUJOCO_GL' in str(error)\n"
    )
    environ = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}
    run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr.decode()
