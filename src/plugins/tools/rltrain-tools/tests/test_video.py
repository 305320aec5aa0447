"""Videos of training: how they are asked for, which steps they show, and who is notified."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import types

import numpy as np
import pytest
import stub_parts
import stub_plugin
from helpers import python, run_ranks
from made_up_sessions import session_of
from messages import says

from rltrain.cli.main import main
from rltrain.errors import PluginError, UsageError
from rltrain.hookspecs import hookimpl
from rltrain.options import RunOptions
from rltrain.plan.resolve import make_plan
from rltrain.plan.table import plan_table
from rltrain.plugins.installed import declarations
from rltrain.records import Media, RunEnded
from rltrain.specs import SuiteSpec
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
    "drawn", [None, (), gray(0)[0], (gray(0)[0][..., :2],), (gray(0)[0] / 255,)]
)
def test_an_invalid_frame_is_reported(record, drawn):
    with says(PluginError):
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

    with says(UsageError):
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


def test_mujoco_is_checked_once_for_rendering():
    """In a process of its own: what MuJoCo has failed at once, it ends the process for."""
    pytest.importorskip("mujoco")
    python("""
        import os
        os.environ.pop("MUJOCO_GL", None)
        from rltrain.errors import UsageError
        from rltrain_adapters import check_mujoco_draws
        for _ in range(2):
            try:
                check_mujoco_draws()
            except UsageError as error:
                assert "MUJOCO_GL" in str(error)
    """)


# How they are asked for: by the observer, or by the flags of Isaac Lab and mjlab


@pytest.mark.parametrize(
    ("typed", "observers", "video"),
    [
        ("", ("watcher",), {"interval": 9}),
        ("--observer watcher video", ("watcher", "video"), {"interval": 9}),
        ("--observer watcher --observer video", ("watcher", "video"), {"interval": 9}),
        ("--video", ("video",), {"interval": 9}),
        ("--video True --observer watcher", ("video", "watcher"), {"interval": 9}),
        ("--video False", ("watcher",), {"interval": 9}),
        ("--video --video_length 6", ("video",), {"interval": 9, "length": 6}),
        ("--video video.length=6", ("video",), {"interval": 9, "length": 6}),
        ("--video-interval 5", ("watcher",), {"interval": 5}),
    ],
)
def test_flags_of_isaac_lab_and_mjlab_choose_the_observer(
    tmp_path, monkeypatch, typed, observers, video
):
    import rltrain.plan.resolve
    import rltrain.run.start  # Or it would be imported with the plan below, and keep it.

    config = tmp_path / "run.yaml"
    config.write_text("observers: [watcher]\nvideo: {interval: 9}\n")
    seen = []

    def plan(options):
        seen.append(RunOptions.from_mapping(options))
        raise UsageError("seen")

    monkeypatch.setattr(rltrain.plan.resolve, "make_plan", plan)
    assert main(["--config", str(config), *typed.split()]) == 2
    assert [(one.observers, one.plugins.get("video")) for one in seen] == [(observers, video)]


# In the plan


@pytest.fixture
def plan(stub, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(stub_plugin, "SuiteSpec", functools.partial(SuiteSpec, renders=True))
    declarations.cache_clear()
    yield lambda **options: make_plan({**stub.OPTIONS, **options}, {})
    declarations.cache_clear()


def test_the_resolved_run_renders_for_an_observer_that_asks_for_it(plan):
    assert not plan(observers=["watcher"]).config.renders
    config = plan(observers=["watcher", "video"], **{"video.length": 5}).config
    assert config.renders
    assert config.observers == ("watcher", "video")
    assert config.plugins == {"video": {"length": 5}}


def test_the_plan_tells_of_videos(plan):
    assert "observers     none" in plan_table(plan())
    assert "observers     watcher, video (length 5, interval 2000)" in plan_table(
        plan(observers=["watcher", "video"], **{"video.length": 5})
    )


def test_an_interval_without_a_step_is_refused(plan):
    with says(UsageError):
        plan(observers=["video"], **{"video.interval": 0})


def test_what_this_machine_cannot_draw_is_refused(stub, site):
    site.install(
        "pictured",
        """
        from rltrain.hookspecs import hookimpl
        from rltrain.specs import SuiteSpec
        from rltrain.types import TaskInfo

        @hookimpl
        def rltrain_provides():
            return [SuiteSpec(
                name="pictured",
                factory="stub_parts:StubSuite",
                frameworks=("numpy",),
                describe=lambda task, env: "See" in task and TaskInfo(task, "discrete") or None,
                tasks=lambda: ["See-v0"],
                renders=True,
                why_not_rendered=lambda task: "" if "All" in task.name else "gl is not installed",
            )]
        """,
    )
    options = {**stub.OPTIONS, "observers": ["video"]}
    with says(UsageError):
        make_plan({**options, "task": "See-v0"}, {})
    assert make_plan({**options, "task": "SeeAll-v0"}, {}).config.renders


PAINTER = """
from rltrain.hookspecs import hookimpl
from rltrain.specs import ObserverSpec

@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="painter", factory="stub_parts:Watcher", renders=True)]
"""


@pytest.mark.parametrize("name", ["video", "painter"])
def test_an_observer_that_renders_is_refused_by_its_name_where_the_suite_does_not(stub, site, name):
    site.install("painter", PAINTER)
    with says(UsageError):
        make_plan({**stub.OPTIONS, "observers": [name]}, {})


def test_without_its_encoder_the_plan_says_what_to_install(plan, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with says(UsageError):
        plan(observers=["video"])
