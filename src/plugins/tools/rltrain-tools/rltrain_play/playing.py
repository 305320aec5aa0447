"""Playing: an agent acts, a viewer or a video shows it, and each episode is told."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rltrain.errors import RltrainError
from rltrain.launch import Latest, ended_by_signal
from rltrain_play.episodes import Finished
from rltrain_play.video.recorder import frames_per_second
from rltrain_play.viewers.controls import Controls, Status

if TYPE_CHECKING:
    from rltrain.policies import PolicySession
    from rltrain.runs import Checkpoint
    from rltrain_play.agents import Agent
    from rltrain_play.following import Follower
    from rltrain_play.video.recorder import Recorder
    from rltrain_play.viewers.controls import Viewer

_SHOWN = 1 / 30
"""Seconds between two pictures of a viewer."""
_BEHIND = 0.25
"""Seconds that playing may fall behind real time before it gives up to catch up."""
_PAUSE = 0.02
"""Seconds between two looks at the controls while playing is paused."""


@dataclass
class Played:
    """What has been played."""

    steps: int = 0
    returns: list[float] = field(default_factory=list)
    """Of the episodes that ended."""
    lengths: list[int] = field(default_factory=list)
    """Of the same, in steps."""
    successes: list[bool] = field(default_factory=list)
    """Of the same, if the task says."""

    @property
    def mean_return(self) -> float | None:
        """Mean return of the episodes, or None if none has ended."""
        return sum(self.returns) / len(self.returns) if self.returns else None

    def summary(self) -> str:
        """Describe it in a line."""
        text = f"{self.steps} steps, {len(self.returns)} episode(s)"
        if self.mean_return is None:
            return text
        text += f", mean return {self.mean_return:.2f}"
        text += f", mean length {sum(self.lengths) / len(self.lengths):.1f}"
        if self.successes:
            text += f", success {100 * sum(self.successes) / len(self.successes):.0f} %"
        return text


class Player:
    """Steps environments until it is told to stop.

    Attributes:
        played: what has been played so far.
    """

    def __init__(
        self,
        session: PolicySession,
        agent: Agent,
        name: str,
        *,
        tell: Callable[[str], None],
        controls: Controls,
        viewer: Viewer | None = None,
        recorder: Recorder | None = None,
        follower: Follower | None = None,
    ) -> None:
        """Prepare. The environments have been reset.

        Args:
            session: has the environments.
            agent: acts.
            name: of the agent, to show.
            tell: prints a line.
            controls: those of the viewer, if there is one.
            viewer: shows the environments.
            recorder: records them.
            follower: knows of newer checkpoints.
        """
        self.played = Played()
        self._session, self._agent, self._name = session, agent, name
        self._tell, self._controls = tell, controls
        self._viewer, self._recorder, self._follower = viewer, recorder, follower
        self._step_dt = 1.0 / frames_per_second(session.env)
        self._due = self._shown = 0.0

    def play(self, observations: Any, steps: int | None) -> bool:
        """Play until the steps are done, the viewer is closed, or Ctrl-C.

        Args:
            observations: what the environments' reset returned.
            steps: how many; None for no end.

        Returns:
            Whether that was the end: not if Ctrl-C came before the steps were done.
        """
        self._observations = observations
        self._finished = Finished(self._session)
        self._agent.reset()
        self._show(at_once=True)
        with _interrupts() as interrupted:
            while self._goes_on(steps):
                if interrupted():
                    return steps is None
                self._go_on()
        return True

    def _goes_on(self, steps: int | None) -> bool:
        left = steps is None or self.played.steps < steps
        return left and (self._viewer is None or self._viewer.is_open())

    def _go_on(self) -> None:
        """Take a step, or wait for one to be asked for."""
        self._take_newer()
        if self._controls.take_reset():
            self._begin()
        if not self._controls.may_step():
            self._show()
            time.sleep(_PAUSE)
            return
        self._step()
        self._show(at_once=self._controls.paused)
        self._keep_pace()

    def _begin(self) -> None:
        """Begin new episodes."""
        self._observations, _ = self._session.env.reset()
        self._finished = Finished(self._session)
        self._agent.reset()
        self._show(at_once=True)

    def _step(self) -> None:
        actions = self._agent.act(self._observations)
        self._observations, *outcome = self._session.env.step(actions)
        self._agent.reset(outcome[1] | outcome[2])
        self.played.steps += 1
        done, returns, lengths, success = self._finished.step(*outcome)
        for i in done.nonzero()[0]:
            won = None if success is None else bool(success[i])
            self._episode(int(i), float(returns[i]), int(lengths[i]), won)
        if self._recorder is not None:
            self._recorder.step()

    def _episode(self, environment: int, total: float, length: int, won: bool | None) -> None:
        played = self.played
        played.returns.append(total)
        played.lengths.append(length)
        text = f"episode {len(played.returns)}"
        if self._session.env.num_envs > 1:
            text += f"  environment {environment}"
        text += f"  return {total:.2f}  length {length}"
        if won is not None:
            played.successes.append(won)
            text += f"  {'success' if won else 'failure'}"
        self._tell(text)

    def _take_newer(self) -> None:
        """Load a newer checkpoint, if there is one, and begin new episodes with it."""
        found = self._follower.look() if self._follower is not None else None
        if found is None:
            return
        try:
            self._agent = self._session.load_policy(found.path)
        except (RltrainError, OSError) as error:
            if found.path.is_file():
                raise
            self._tell(f"passing over {found.path.name}: it is gone ({type(error).__name__})")
            return
        self._name = describe_checkpoint(found)
        self._tell(f"checkpoint {self._name}")
        self._begin()

    def _show(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._viewer is None or not (at_once or now - self._shown >= _SHOWN):
            return
        self._viewer.show(self._status())
        self._shown = time.monotonic()

    def _status(self) -> Status:
        controls, played = self._controls, self.played
        pace = f"{controls.speed:g}x real time" if controls.real_time else "as fast as possible"
        return Status(
            agent=self._name,
            step=played.steps,
            environment=controls.environment,
            episode_return=float(self._finished.returns[controls.environment]),
            length=int(self._finished.lengths[controls.environment]),
            episodes=len(played.returns),
            mean_return=played.mean_return,
            pace="paused" if controls.paused else pace,
        )

    def _keep_pace(self) -> None:
        """Wait until the step has taken as long as in the simulation."""
        if not self._controls.real_time:
            return
        now = time.monotonic()
        if self._due < now - _BEHIND:
            self._due = now
        self._due += self._step_dt / self._controls.speed
        if self._due > now:
            time.sleep(self._due - now)


def describe_checkpoint(found: Checkpoint) -> str:
    """Return a checkpoint's name, and the iteration if it is known."""
    name, iteration = found.path.name, found.iteration
    return name if iteration is None else f"{name}, iteration {iteration}"


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C was pressed; pressed again, it interrupts.

    An exception at any point could be lost: Python ignores those in the `__del__` of others.
    """
    pressed: list[int] = []
    latest = Latest()

    def remember(number: int, frame: Any) -> None:
        if latest.is_again(number):
            return
        if pressed:
            raise ended_by_signal(signal.Signals(number))
        pressed.append(number)

    before = {each: signal.signal(each, remember) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(pressed)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    if signal.SIGTERM in pressed:
        raise ended_by_signal(signal.SIGTERM)
