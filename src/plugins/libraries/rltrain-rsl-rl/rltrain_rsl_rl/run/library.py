"""The library plugin: it trains a session's policy with rsl_rl, and loads what was trained."""

from __future__ import annotations

from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.policy import Policy
from rltrain.session import Session
from rltrain.types import TrainResult
from rltrain_rsl_rl.declare.older import upgrade_options
from rltrain_rsl_rl.declare.options import without_options_of_other_classes
from rltrain_rsl_rl.policy.policy import load_policy
from rltrain_rsl_rl.run.env import RslRlEnv
from rltrain_rsl_rl.run.runner import SessionRunner


class RslRlLibrary:
    """Trains policies with rsl_rl's on-policy runner."""

    @hookimpl
    def rltrain_train(self, session: Session) -> TrainResult:
        """Train on this rank until the iterations are done or the session stops the run."""
        options = without_options_of_other_classes(upgrade_options(session.config.agent))
        total = session.config.max_iterations or options.get("max_iterations")
        if not total:
            raise UsageError(
                "The agent config does not say how long to train: give --max-iterations."
            )
        clip, sets = options.get("clip_actions"), options.get("obs_groups")
        env = RslRlEnv(session.env, session.world.device, clip, sets)
        runner = SessionRunner(env, options, session)
        runner.connect()
        left = session.iterations_left(int(total), runner.current_learning_iteration)
        # An exact resume restores the environments, with the random lengths of the beginning.
        random_lengths = options.get("init_at_random_ep_len") and not session.resuming_exactly
        session.seed("learner")
        runner.learn(left, bool(random_lengths))
        return session.result()

    @hookimpl
    def rltrain_load_policy(self, session: Session) -> Policy:
        """Load the actor of PPO, or the student of distillation."""
        return load_policy(session)
