"""The suite: batches of Playground's environments, on the rank's device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltrain.hookspecs import hookimpl

if TYPE_CHECKING:
    from rltrain.session import Session
    from rltrain_playground.env import PlaygroundEnv


class PlaygroundSuite:
    """Makes environments of the tasks that Playground has."""

    @hookimpl
    def rltrain_make_env(self, session: Session) -> PlaygroundEnv:
        """Make this rank's environments."""
        config, device = session.config, session.world.device
        from rltrain_adapters import check_mujoco_draws
        from rltrain_playground.config import with_options
        from rltrain_playground.env import PlaygroundEnv

        if session.renders:
            check_mujoco_draws()
        settings = with_options(config.task, config.env, device)
        return PlaygroundEnv(config.task, config.num_envs or 1, settings, device)
