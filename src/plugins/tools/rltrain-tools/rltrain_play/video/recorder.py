"""Short clips of environments, encoded while they are rendered. Imported only to record them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from rltrain.errors import PluginError, UsageError
from rltrain_adapters import cannot_render


def frames_per_second(env: Any) -> float:
    """Return how fast a video shows what happens as fast as it happened, if that is known."""
    step_dt = getattr(env.unwrapped, "step_dt", None)
    return 1.0 / step_dt if step_dt else float(env.metadata.get("render_fps") or 30.0)


class Recorder:
    """Records clips of so many steps, every so many steps.

    A frame goes to the encoder, a process of its own, as soon as it is rendered: no more than one
    is ever held. A video is complete or absent.
    """

    def __init__(
        self,
        render: Callable[[], Any],
        folder: Path,
        *,
        length: int,
        interval: int,
        fps: float,
        finished: Callable[[Path], object],
        name: str = "rl-video-step-{step}",
    ) -> None:
        """Prepare; nothing is rendered or written before the first step.

        Length and interval are in steps, from the start of one clip to the start of the next. In
        the name, {step} stands for a clip's first step. `finished` is called with its path.
        """
        self._render, self._folder, self._finished = render, folder, finished
        self._length, self._interval, self._fps, self._name = length, interval, fps, name
        self._steps = self._frames = 0
        self._clip: Path | None = None
        self._encoder: Generator[None, Any, None] | None = None

    def step(self) -> None:
        """Render the environments, if this step is in a clip. Call it after each step."""
        if self._steps % self._interval == 0:
            self.close()
            self._clip = self._folder / f"{self._name.format(step=self._steps)}.mp4"
        self._steps += 1
        if self._clip is None:
            return
        frame = render_frame(self._render)
        if self._encoder is None:
            height, width, _ = frame.shape
            self._folder.mkdir(parents=True, exist_ok=True)
            self._encoder = _encoder(_partial(self._clip), (width, height), self._fps)
        self._encoder.send(frame)
        self._frames += 1
        if self._frames == self._length:
            self.close()

    def close(self) -> None:
        """Complete the clip in progress, if there is one."""
        clip, self._clip = self._clip, None
        encoder, self._encoder, self._frames = self._encoder, None, 0
        if clip is None or encoder is None:
            return
        encoder.close()
        if clip.parent.is_dir():  # Else it was removed, or its disk is lost. The run continues.
            os.replace(_partial(clip), clip)
            self._finished(clip)


def render_frame(render: Callable[[], Any]) -> Any:
    """Return the first frame that environments render, uint8 of shape (height, width, 3)."""
    import numpy as np

    try:
        frames = render()
    except UsageError:
        raise
    except Exception as error:
        raise cannot_render(error) from error
    frame = frames[0] if isinstance(frames, (tuple, list)) and frames else None
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.shape[2:] != (3,):
        of = f" of {frame.dtype} {frame.shape}" if isinstance(frame, np.ndarray) else ""
        raise PluginError(
            "env.render() must return a tuple of frames, numpy arrays of uint8 with height, "
            f"width and 3 channels. It returned {type(frames).__name__}{of}."
        )
    return np.ascontiguousarray(frame)


def _partial(clip: Path) -> Path:
    """Where a video is while it is written; ffmpeg chooses the format by the suffix."""
    return clip.with_name(f".partial-{clip.name}")


def _encoder(path: Path, size: tuple[int, int], fps: float) -> Generator[None, Any, None]:
    """Start an encoder of frames; `size` is width and height in pixels."""
    encoder: Generator[None, Any, None] = importlib.import_module("imageio_ffmpeg").write_frames(
        path,
        size,
        fps=fps,
        macro_block_size=2,  # What the colors of H.264 take two by two.
        ffmpeg_log_level="error",
        output_params=["-threads", "1"],  # The others are the ranks'.
    )
    encoder.send(None)
    return encoder
