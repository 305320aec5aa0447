"""How videos are asked for: by the observer `video`, or by the flags of Isaac Lab and mjlab."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys

import pytest
import stub_plugin
from test_resuming import begun

from rltrain.cli.main import main
from rltrain.cli.train import separate
from rltrain.errors import UsageError
from rltrain.options import RunOptions
from rltrain.plan.resolve import make_plan
from rltrain.plan.resuming import with_options_of_run
from rltrain.plan.table import plan_table
from rltrain.specs import SuiteSpec
from rltrain_play.video.observer import VideoOptions

__all__ = ["begun"]


def asked(options):
    """Return the observers and the options of plugins that some options come to."""
    found = RunOptions.from_mapping(options)
    return found.observers, found.plugins


@pytest.mark.parametrize(
    ("options", "observers", "plugins"),
    [
        ({"video": True}, ("video",), {}),
        ({"video": True, "observers": ["watcher"]}, ("watcher", "video"), {}),
        ({"video": True, "observers": ["video"]}, ("video",), {}),
        ({"video": True, "video_length": "5"}, ("video",), {"video": {"length": 5}}),
        (
            {"observers": "video", "video_length": 5, "video.interval": 7},
            ("video",),
            {"video": {"length": 5, "interval": 7}},
        ),
        (
            {"video": True, "video_length": 5, "video.length": 5},
            ("video",),
            {"video": {"length": 5}},
        ),
        ({"observers": "video", "video": {"length": 5}}, ("video",), {"video": {"length": 5}}),
        ({"video": True, "csv": {"flush": 2}}, ("video",), {"csv": {"flush": 2}}),
        # As in the files that older versions wrote into run folders.
        ({"video": False, "video_length": 5, "video_interval": 7}, (), {}),
        ({"video_length": 5}, (), {}),
    ],
)
def test_the_flags_choose_the_observer_and_set_its_options(options, observers, plugins):
    assert asked(options) == (observers, plugins)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"video": True, "video_length": 5, "video.length": 6},
            "--video-length 5 and video.length=6 contradict each other. Give one of the two.",
        ),
        (
            {"observers": "video", "video_interval": 5, "plugins": {"video": {"interval": 6}}},
            "--video-interval 5 and video.interval=6 contradict each other",
        ),
        (
            {"observers": "video", "video": False},
            "--video False and --observer video contradict each other",
        ),
        ({"video_length": 0}, "--video-length 0: must be at least 1"),
        ({"video": "yes"}, "--video yes: must be true or false"),
    ],
)
def test_what_is_wrong_or_contradicts_is_refused(options, said):
    with pytest.raises(UsageError) as caught:
        RunOptions.from_mapping(options)
    assert said in str(caught.value)


def test_the_help_of_the_flags_has_the_observers_defaults(capsys):
    options = vars(VideoOptions())
    with pytest.raises(SystemExit):
        main(["train", "--help-all"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, default in options.items():
        assert f"video.{name}=N ({default})" in shown


# On the command line, beside a file


FILES = {
    "flags": "video: true\nvideo_length: 5\n",
    "observer": "observers: [watcher, video]\nvideo: {length: 5, interval: 9}\n",
    "none": "video: false\nvideo_length: 5\nobservers: [watcher]\n",
}


@pytest.mark.parametrize(
    ("file", "typed", "observers", "video"),
    [
        ("flags", "", ("video",), {"length": 5}),
        ("flags", "--video-length 6", ("video",), {"length": 6}),
        ("flags", "video.length=6", ("video",), {"length": 6}),
        ("flags", "--video False", (), None),
        ("flags", "--observer watcher", ("watcher", "video"), {"length": 5}),
        ("observer", "", ("watcher", "video"), {"length": 5, "interval": 9}),
        ("observer", "--video", ("watcher", "video"), {"length": 5, "interval": 9}),
        ("observer", "--video-length 6", ("watcher", "video"), {"length": 6, "interval": 9}),
        ("observer", "--video False", ("watcher",), None),
        ("none", "", ("watcher",), None),
        ("none", "--video True", ("watcher", "video"), {"length": 5}),
        ("none", "--observer video", ("video",), {"length": 5}),
    ],
)
def test_the_command_line_wins_over_the_file(tmp_path, monkeypatch, file, typed, observers, video):
    import rltrain.plan.resolve

    config = tmp_path / "run.yaml"
    config.write_text(FILES[file])
    seen = []

    def plan(options):
        seen.append(RunOptions.from_mapping(options))
        raise UsageError("seen")

    monkeypatch.setattr(rltrain.plan.resolve, "make_plan", plan)
    assert main(["--config", str(config), *typed.split()]) == 2
    assert [(one.observers, one.plugins.get("video")) for one in seen] == [(observers, video)]


def test_an_override_of_the_observer_is_not_a_value_of_its_flag():
    assert separate(["--video", "video.length=5"]) == (["--video"], ["video.length=5"])


# In the plan


@pytest.fixture
def plan(stub, monkeypatch):
    """Plan a run of stubs, whose suite renders."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(stub_plugin, "SuiteSpec", functools.partial(SuiteSpec, renders=True))

    def make(**options):
        return make_plan({**stub.OPTIONS, **options}, {})

    return make


def test_the_resolved_run_renders_for_an_observer_that_asks_for_it(plan):
    assert not plan(observers=["watcher"]).config.renders
    config = plan(observers=["watcher"], video=True, video_length=5).config
    assert config.renders
    assert config.observers == ("watcher", "video")
    assert config.plugins == {"video": {"length": 5}}


def test_the_plan_tells_of_videos(plan):
    assert "observers     none" in plan_table(plan())
    assert "observers     watcher, video (length 5, interval 2000)" in plan_table(
        plan(observers=["watcher"], video=True, video_length=5)
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"video.lenght": 5},
            "video.lenght: the observer video has no such option. Did you mean 'length'? Its "
            "options: interval, length.",
        ),
        ({"video.length": "long"}, "video.length=long: must be int."),
        ({"video.interval": 0}, "video: interval=0 must be at least 1."),
    ],
)
def test_the_observers_options_are_checked(plan, options, said):
    with pytest.raises(UsageError) as caught:
        plan(video=True, **options)
    assert str(caught.value) == said


@pytest.mark.parametrize("options", [{"video": True}, {"observers": ["video"]}])
def test_a_suite_that_does_not_render_is_refused(stub, options):
    with pytest.raises(UsageError) as caught:
        make_plan({**stub.OPTIONS, **options}, {})
    assert str(caught.value).startswith(
        "--video (or --observer video): the suite stubs does not render its environments. Leave it "
        "out."
    )


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
                cannot_draw=lambda task: "gl is not installed" if task.name == "See-v0" else None,
            )]
        """,
    )
    options = {**stub.OPTIONS, "observers": ["video"]}
    with pytest.raises(UsageError, match=r"video\): gl is not installed\. Install it, or leave it"):
        make_plan({**options, "task": "See-v0"}, {})
    assert make_plan({**options, "task": "SeeAll-v0"}, {}).config.renders


def test_another_observer_that_renders_is_refused_by_its_own_name(stub, site):
    site.install(
        "painter",
        """
        from rltrain.hookspecs import hookimpl
        from rltrain.specs import ObserverSpec

        @hookimpl
        def rltrain_provides():
            return [ObserverSpec(name="painter", factory="stub_parts:Watcher", renders=True)]
        """,
    )
    with pytest.raises(UsageError, match=r"^--observer painter: the suite stubs does not render"):
        make_plan({**stub.OPTIONS, "observers": ["painter"]}, {})


def test_without_its_encoder_the_plan_says_what_to_install(plan, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r'observer video\): .* pip install "rltrain\[video\]"'):
        plan(video=True)


def test_plugins_video_lists_the_options(capsys):
    assert main(["plugins", "video"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("observer video, from rltrain-play ")
    assert "\n  video.length=200  (int)\n      Length of a video in environment steps." in shown
    assert "\n  video.interval=2000  (int)\n" in shown


def test_a_plan_with_videos_imports_nothing_heavy():
    code = (
        "import sys, rltrain_play.plugin, rltrain_play.video.observer\n"
        "print({'gymnasium', 'numpy', 'imageio_ffmpeg'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "set()", ran.stderr


def test_a_run_that_goes_on_keeps_its_options_of_videos(begun):
    run = begun(1)
    with (run / "config.yaml").open("a") as file:
        file.write("video: {length: 7, interval: 9}\n")
    of_run = with_options_of_run({"resume": str(run), "video_length": 8})[0]
    given = RunOptions.from_mapping({**of_run, "video": True}).plugins
    assert given == {"video": {"length": 8, "interval": 9}}
