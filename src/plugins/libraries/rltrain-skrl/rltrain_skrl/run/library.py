"""The library skrl."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from rltrain.hookspecs import hookimpl
from rltrain_skrl.run import bootstrap

if TYPE_CHECKING:
    from rltrain.policy import Policy
    from rltrain.session import Session
    from rltrain.types import TrainResult


class SkrlLibrary:
    """Trains with skrl's own Runner, agent and trainer."""

    @hookimpl
    def rltrain_train(self, session: Session) -> TrainResult:
        """Train until the last iteration or until the session says stop."""
        framework = session.config.framework
        with bootstrap.configured(session.world, framework):
            runner = importlib.import_module(f"rltrain_skrl.run.{framework}.runner")
            runner.SessionRunner(session).train()
        return session.result()

    @hookimpl
    def rltrain_load_policy(self, session: Session) -> Policy:
        """Load the policy of the session's checkpoint, one of this plugin's or of skrl's own."""
        module = importlib.import_module(f"rltrain_skrl.policy.{session.config.framework}")
        loaded: Policy = module.Policy(session)
        return loaded
