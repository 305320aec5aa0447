"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

import importlib.util

from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec, Dialect, ObserverSpec, Refusal, Spec

NO_ENCODER = Refusal(
    name="--observer video",
    applies=lambda config, task: importlib.util.find_spec("imageio_ffmpeg") is None,
    reason="the package imageio-ffmpeg, which encodes videos, is not installed.",
    instead='pip install "rltrain[video]", or train without videos.',
)


@hookimpl
def rltrain_provides() -> list[Spec]:
    """Declare the commands, and the observer of training."""
    return [
        CommandSpec(
            name="demo",
            factory="rltrain_play.commands.demo:DemoCommand",
            summary="see all of it in a minute: train two ranks, evaluate, export, and a report",
        ),
        CommandSpec(
            name="tasks",
            factory="rltrain_play.commands.tasks:TasksCommand",
            summary="list tasks: their spaces, what can learn them, and which have tuned options",
        ),
        CommandSpec(
            name="play",
            factory="rltrain_play.commands.play:PlayCommand",
            summary="watch a policy: in a window, in the browser, as a video, or by its returns",
            takes="options",
        ),
        CommandSpec(
            name="evaluate",
            factory="rltrain_play.commands.evaluate:EvaluateCommand",
            summary="measure what a run has learned: statistics of whole episodes of its policy",
            takes="options",
        ),
        CommandSpec(
            name="export",
            factory="rltrain_play.commands.export:ExportCommand",
            summary="write a policy as a file that runs without rltrain, as on a robot",
            takes="options",
        ),
        ObserverSpec(
            name="video",
            factory="rltrain_play.video.observer:VideoObserver",
            options="rltrain_play.video.observer:VideoOptions",
            summary="videos of rank 0's environments",
            renders=True,
            refuses=(NO_ENCODER,),
        ),
    ]


@hookimpl
def rltrain_dialect() -> Dialect:
    """Take Isaac Lab's and mjlab's flags of videos of training."""
    return Dialect(
        program="Isaac Lab and mjlab",
        train_flags={
            "--video": ["--observer=video"],
            "--video-length": lambda value: [f"video.length={value}"],
            "--video-interval": lambda value: [f"video.interval={value}"],
        },
    )
