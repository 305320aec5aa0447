"""How videos are asked for: by the observer `video`, or by the flags of Isaac Lab and mjlab."""

from __future__ import annotations

import functools
import importlib.util

import pytest
import stub_plugin
from helpers import python, refusal

from rltrain.cli.main import main
from rltrain.errors import UsageError
from rltrain.options import RunOptions
from rltrain.plan.resolve import make_plan
from rltrain.plan.table import plan_table
from rltrain.specs import SuiteSpec


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
    """Plan a run of stubs, whose suite renders."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(stub_plugin, "SuiteSpec", functools.partial(SuiteSpec, renders=True))

    def make(**options):
        return make_plan({**stub.OPTIONS, **options}, {})

    return make


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
    with pytest.raises(UsageError, match=r"^video: interval=0 must be at least 1\.$"):
        plan(observers=["video"], **{"video.interval": 0})


def test_a_suite_that_does_not_render_is_refused(stub):
    told = refusal(make_plan, {**stub.OPTIONS, "observers": ["video"]}, {})
    assert told.startswith(
        "--observer video: the suite stubs does not render its environments. Leave it out."
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
                why_not_rendered=lambda task: "" if "All" in task.name else "gl is not installed",
            )]
        """,
    )
    options = {**stub.OPTIONS, "observers": ["video"]}
    with pytest.raises(UsageError, match=r"video: gl is not installed\. Install it, or leave it"):
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
    with pytest.raises(UsageError, match=r'observer video: .* pip install "rltrain\[video\]"'):
        plan(observers=["video"])


def test_plugins_video_lists_the_options(capsys):
    assert main(["plugins", "video"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("observer video, from rltrain-tools ")
    assert "\n  video.length=200  (int)\n      Length of a video in environment steps." in shown
    assert "\n  video.interval=2000  (int)\n" in shown


def test_a_plan_with_videos_imports_nothing_heavy():
    code = (
        "import sys, rltrain_play.plugin, rltrain_play.video.observer\n"
        "print({'gymnasium', 'numpy', 'imageio_ffmpeg'} & set(sys.modules))"
    )
    assert python(code).stdout.strip() == "set()"
