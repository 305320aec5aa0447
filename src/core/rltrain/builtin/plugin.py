"""What the core itself provides. Imports are light: listing plugins imports this module."""

from __future__ import annotations

import importlib.util

from rltrain.builtin.clusters import CLUSTERS
from rltrain.hookspecs import hookimpl
from rltrain.specs import ObserverSpec, Refusal, Spec, WriterSpec

NO_ENCODER = Refusal(
    name="--video (or --observer video)",
    applies=lambda config, task: importlib.util.find_spec("imageio_ffmpeg") is None,
    reason="the package imageio-ffmpeg, which encodes videos, is not installed.",
    instead='pip install "rltrain[video]", or train without videos.',
)


@hookimpl
def rltrain_provides() -> list[Spec]:
    """Declare what needs nothing else installed, or one small package."""
    return [
        WriterSpec(
            name="console",
            factory="rltrain.builtin.console:ConsoleWriter",
            summary="a live view on a terminal, a line an iteration elsewhere",
        ),
        ObserverSpec(
            name="video",
            factory="rltrain.builtin.video:VideoObserver",
            options="rltrain.builtin.video:VideoOptions",
            summary="videos of rank 0's environments; --video chooses it too",
            renders=True,
            refuses=(NO_ENCODER,),
        ),
        *CLUSTERS,
    ]
