"""The library plugin: it trains a session's policy with rsl_rl, and loads what was trained."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.types import TrainResult
from rltrain_rsl_rl.migrations import upgrade_options
from rltrain_rsl_rl.options import without_options_of_other_classes

if TYPE_CHECKING:
    from rltrain.policy import Policy
    from rltrain.session import Session


class RslRlLibrary:
    """Trains policies with rsl_rl's on-policy runner."""

    @hookimpl
    def rltrain_train(self, session: Session) -> TrainResult:
        """Train on this rank until the iterations are done or the session stops the run."""
        prepare_import()
        from rltrain_rsl_rl.env import RslRlEnv
        from rltrain_rsl_rl.runner import SessionRunner

        options = without_options_of_other_classes(upgrade_options(session.config.agent))
        total = _total_iterations(session, options)
        clip, sets = options.get("clip_actions"), options.get("obs_groups")
        env = RslRlEnv(session.env, session.world.device, clip, sets)
        runner = SessionRunner(env, options, session)
        runner.connect()
        left = session.iterations_left(total, runner.current_learning_iteration)
        # An exact resume restores the environments, with the lengths drawn at the beginning.
        random_lengths = options.get("init_at_random_ep_len") and not session.resuming_exactly
        session.seed("learner")
        runner.learn(left, bool(random_lengths))
        return session.result()

    @hookimpl
    def rltrain_load_policy(self, session: Session) -> Policy:
        """Load the actor of PPO, or the student of distillation."""
        prepare_import()
        from rltrain_rsl_rl.policy import load_policy

        return load_policy(session)


def prepare_import() -> None:
    """Let rsl_rl be imported on machines without git: GitPython, which it imports, would fail."""
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")


def _total_iterations(session: Session, options: dict[str, Any]) -> int:
    iterations = session.config.max_iterations or options.get("max_iterations")
    if not iterations:
        raise UsageError("The agent config does not say how long to train: give --max-iterations.")
    return int(iterations)
