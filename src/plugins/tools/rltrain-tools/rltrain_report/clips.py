"""Videos and images of runs, in the page as far as they fit."""

from __future__ import annotations

import base64
import errno
from collections.abc import Sequence
from pathlib import Path

from rltrain.runs import Run, read_bytes
from rltrain.terminal import in_bytes
from rltrain_report.page import Clip, Text

MOST_BYTES = 25_000_000
"""Bytes of videos and images that a page may hold; what is more is linked."""

_TYPES = {
    **{".mp4": "video/mp4", ".webm": "video/webm"},
    **{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"},
}


def clip_blocks(runs: Sequence[Run]) -> list[Clip | Text]:
    """Return the videos and images: the newest of each run first, so that these are in the page."""
    each = [list(reversed(run.metrics.media)) for run in runs]
    ordered = [
        (run, media[place])
        for place in range(max(map(len, each), default=0))
        for run, media in zip(runs, each, strict=True)
        if place < len(media)
    ]
    clips, left, linked = [], MOST_BYTES, 0
    for run, media in ordered:
        path = Path(media.path)
        kind = _TYPES.get(path.suffix.lower())
        caption = f"{media.name}, iteration {media.iteration}"
        caption += f", {run.name}" if len(runs) > 1 else ""
        if kind is None:  # It could be a page that runs scripts.
            clips.append(Clip(f"{caption}: not shown ({path.name})", "", "none"))
            continue
        try:
            content = read_bytes(path, left, run.path)
        except OSError as error:
            if error.errno == errno.EFBIG:
                linked += 1
                clips.append(Clip(caption, path.resolve().as_uri(), "link"))
            else:
                clips.append(Clip(f"{caption}: cannot be read ({error.strerror})", "", "none"))
            continue
        left -= len(content)
        data = base64.b64encode(content).decode()
        clips.append(Clip(caption, f"data:{kind};base64,{data}", kind.partition("/")[0]))
    if not linked:
        return list(clips)
    note = (
        f"A page holds at most {in_bytes(MOST_BYTES)} of videos and images. {linked} more "
        f"{'are' if linked > 1 else 'is'} linked: such a link works only where the run folder is."
    )
    return [Text([note]), *clips]
