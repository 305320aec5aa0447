"""The observer `video`: clips of rank 0's environments, in the run folder."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rltrain.hookspecs import hookimpl
from rltrain.records import Media

if TYPE_CHECKING:
    from rltrain.session import Session
    from rltrain_play.video.recorder import Recorder

FOLDER = "videos"
"""The folder of the videos in the run folder."""


@dataclass(frozen=True)
class VideoOptions:
    """Which steps are recorded."""

    length: int = 200
    """Length of a video in environment steps. A video is shorter if the next one begins before."""
    interval: int = 2000
    """Environment steps from the start of one video to the start of the next."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1.")


class VideoObserver:
    """Records the environments of rank 0 and reports each video to the writers."""

    def __init__(self, options: VideoOptions) -> None:
        self._options = options
        self._recorder: Recorder | None = None

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session: Session) -> Generator[None, Any, Any]:
        """Record the steps of the environments that the suite made."""
        env = yield
        if env is None or not session.renders:
            return env
        from rltrain_play.video.recorder import Recorder, frames_per_second

        step, run = env.step, session.run_folder.path
        recorder = self._recorder = Recorder(
            env.render,
            run / FOLDER,
            length=self._options.length,
            interval=self._options.interval,
            fps=frames_per_second(env),
            finished=lambda path: session.record(Media(str(path), path.stem, session.iteration)),
        )

        def recorded(actions: Any) -> Any:
            outcome = step(actions)
            if run.is_dir():  # Else it was removed, or its disk is lost.
                recorder.step()
            return outcome

        env.step = recorded
        return env

    @hookimpl(wrapper=True)
    def rltrain_train(self) -> Generator[None, Any, Any]:
        """Complete the video in progress when training ends, even by an error.

        `rltrain_shutdown` would be too late: the writers have recorded the end of the run by then.
        """
        try:
            result = yield
        except BaseException:
            with contextlib.suppress(Exception):  # The first error counts.
                self._close()
            raise
        self._close()
        return result

    def _close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
