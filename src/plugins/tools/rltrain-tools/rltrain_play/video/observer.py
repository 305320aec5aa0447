"""The observer `video`: clips of rank 0's environments, in the run folder."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
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
    """Records the environments of rank 0 and tells the writers of each video."""

    def __init__(self, options: VideoOptions) -> None:
        self._options = options
        self._recorder: Recorder | None = None
        self._run = Path()

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session: Session) -> Generator[None, Any, Any]:
        """Wrap the environments that the suite made, so that their steps are recorded."""
        env = yield
        if env is None or not session.renders:
            return env
        from rltrain_play.video.recorded_env import RecordedEnv
        from rltrain_play.video.recorder import Recorder, frames_per_second

        def tell(path: Path) -> None:
            session.record(Media(str(path), path.stem, session.iteration))

        self._run = session.run_folder.path
        self._recorder = Recorder(
            env.render,
            self._run / FOLDER,
            length=self._options.length,
            interval=self._options.interval,
            fps=frames_per_second(env),
            finished=tell,
        )
        return RecordedEnv(env, self._step)

    @hookimpl(wrapper=True)
    def rltrain_train(self) -> Generator[None, Any, Any]:
        """Complete the video in progress when training ends, even by an error.

        At `rltrain_shutdown` it would be too late: the writers have been told that the run ended.
        """
        try:
            result = yield
        except BaseException as error:
            try:
                self._close()
            except Exception as other:
                error.add_note(f"While a video was completed: {type(other).__name__}: {other}")
            raise
        self._close()
        return result

    def _step(self) -> None:
        # A folder that is not there was removed, or its disk is lost: it is not for this to make.
        if self._recorder is not None and self._run.is_dir():
            self._recorder.step()

    def _close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
