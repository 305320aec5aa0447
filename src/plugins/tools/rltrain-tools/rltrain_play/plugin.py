"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

from rltrain.dialects import Dialect
from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec, ObserverSpec, Refusal, Spec

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
    return Dialect(program="Isaac Lab and mjlab", add_flags=_add_flags)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    hidden: dict[str, Any] = {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS}
    parser.add_argument("--video", dest="observers", action="append_const", const="video", **hidden)
    for name in ("length", "interval"):
        parser.add_argument(f"--video-{name}", dest=f"video.{name}", type=int, **hidden)
