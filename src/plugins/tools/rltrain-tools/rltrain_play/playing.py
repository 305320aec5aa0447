"""Playing: an agent acts, a viewer or a video shows it, and each episode is reported."""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rltrain.runs import Checkpoint
from rltrain_play.episodes import Ended, Rollout
from rltrain_play.video.recorder import frames_per_second
from rltrain_play.viewers.controls import Controls

if TYPE_CHECKING:
    from rltrain.policies import PolicySession
    from rltrain_play.video.recorder import Recorder
    from rltrain_play.viewers.page import Page
    from rltrain_play.viewers.scenes import MujocoWindow

_FRAME = 1 / 30
"""Seconds between two frames of a viewer."""
_PAUSE = 0.02
"""Seconds between two checks of the controls while playing is paused."""


class Untrained:
    """Acts without a policy: by zeros, or the closest actions that are allowed; or at random."""

    def __init__(self, session: PolicySession, *, random: bool) -> None:
        import numpy as np
        from gymnasium.vector.utils import batch_space

        self._session, self._random = session, random
        space: Any = batch_space(session.env.single_action_space, session.env.num_envs)
        space.seed(session.seeds.seed("learner"))
        zeros = np.zeros(space.shape, space.dtype)
        self._zeros = zeros.clip(space.low, space.high) if hasattr(space, "low") else zeros
        self._space = space

    def act(self, observations: Any) -> Any:
        """Return actions for all environments."""
        actions = self._space.sample() if self._random else self._zeros
        arrays = self._session.arrays
        return actions if arrays is None else arrays.from_host(actions, self._session.world.device)

    def reset(self, done: Any = None) -> None:
        """Nothing is remembered."""


class Player:
    """Steps environments until the steps are done, the viewer is closed, or Ctrl-C."""

    def __init__(
        self,
        session: PolicySession,
        agent: Any,
        name: str,
        *,
        report: Callable[[str], None],
        viewer: Page | MujocoWindow | None = None,
        real_time: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        """Prepare. The environments have been reset; `name` is the agent's, `report` prints."""
        self.steps = 0
        self.episodes: list[Ended] = []
        self._session, self._name, self._report = session, name, report
        self._rollout = Rollout(session, agent)
        self._viewer, self._recorder = viewer, recorder
        self._controls = viewer.controls if viewer is not None else Controls()
        self._step_dt = 1.0 / frames_per_second(session.env) if real_time else 0.0
        self._shown = 0.0

    def play(self, observations: Any, steps: int | None) -> bool:
        """Play so many steps, or without an end, from the observations of a reset.

        Return whether that was all: not if Ctrl-C came before the steps were done.
        """
        self._rollout.begin(observations)
        self._show(at_once=True)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            while (steps is None or self.steps < steps) and (
                self._viewer is None or self._viewer.is_open()
            ):
                self._advance()
        except KeyboardInterrupt:
            return steps is None
        finally:
            signal.signal(signal.SIGINT, before)
        return True

    def summary(self) -> str:
        """Describe in a line what was played."""
        text = f"{self.steps} steps, {len(self.episodes)} episode(s)"
        if not self.episodes:
            return text
        _, _, lengths, successes = zip(*self.episodes, strict=True)
        text += f"{self._mean_return()}, mean length {statistics.fmean(lengths):.1f}"
        known = [each for each in successes if each is not None]
        return f"{text}, success {100 * statistics.fmean(known):.0f} %" if known else text

    def _mean_return(self) -> str:
        if not self.episodes:
            return ""
        return f", mean return {statistics.fmean(total for _, total, *_ in self.episodes):.2f}"

    def _advance(self) -> None:
        """Take a step, or wait for one to be asked for."""
        if self._controls.take_reset():
            self._rollout.begin(self._session.env.reset()[0])
            self._show(at_once=True)
        if not self._controls.may_step():
            self._show()
            time.sleep(_PAUSE)
            return
        began, ended = time.monotonic(), self._rollout.step()
        self.steps += 1
        for episode in ended:
            self.episodes.append(episode)
            environment, total, length, success = episode
            where = f"  environment {environment}" if self._session.env.num_envs > 1 else ""
            outcome = {True: "  success", False: "  failure", None: ""}[success]
            self._report(
                f"episode {len(self.episodes)}{where}  return {total:.2f}  length {length}{outcome}"
            )
        if self._recorder is not None:
            self._recorder.step()
        self._show(at_once=self._controls.paused)
        time.sleep(max(0.0, began + self._step_dt - time.monotonic()))

    def _show(self, *, at_once: bool = False) -> None:
        if self._viewer is None or not (at_once or time.monotonic() - self._shown >= _FRAME):
            return
        shown = self._controls.environment
        self._viewer.show(
            [
                ("agent", self._name),
                ("environment", str(shown)),
                ("return", f"{self._rollout.returns[shown]:.2f}"),
                ("length", str(self._rollout.lengths[shown])),
                ("finished", f"{len(self.episodes)}{self._mean_return()}"),
                ("step", f"{self.steps}{', paused' if self._controls.paused else ''}"),
            ]
        )
        self._shown = time.monotonic()


def describe_checkpoint(found: Checkpoint) -> str:
    """Return a checkpoint's name, and the iteration if it is known."""
    name, iteration = found.path.name, found.iteration
    return name if iteration is None else f"{name}, iteration {iteration}"
