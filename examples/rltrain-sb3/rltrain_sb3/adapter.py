"""The library plugin: trains with SB3 in a session, and loads what was trained."""

from __future__ import annotations

import math

from rltrain import hookimpl
from rltrain.policy import Policy
from rltrain.session import Session
from rltrain.types import TrainResult
from rltrain_sb3.agent import AGENTS
from rltrain_sb3.options import TIMESTEPS, keywords
from rltrain_sb3.policy import load_policy

__all__ = ["Sb3Library"]


class Sb3Library:
    """Trains with Stable-Baselines3."""

    @hookimpl
    def rltrain_train(self, session: Session) -> TrainResult:
        """Train on this rank until the iterations are done or the session stops the run.

        Raises:
            UsageError: the options or the task do not fit SB3.
        """
        algorithm = session.config.algorithm
        agent = AGENTS[algorithm](session, **keywords(session.config.agent, algorithm))
        iterations = session.config.max_iterations
        if iterations is None:
            frames = agent.n_steps * agent.n_envs * session.world.world_size
            iterations = math.ceil(session.config.agent[TIMESTEPS] / frames)
        agent.learn_iterations(iterations)
        return session.result()

    @hookimpl
    def rltrain_load_policy(self, session: Session) -> Policy:
        """Load a trained policy.

        Raises:
            UsageError: the checkpoint does not fit the options or the task.
        """
        return load_policy(session)
