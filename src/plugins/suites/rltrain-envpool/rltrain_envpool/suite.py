"""The suite: pools of environments. Their threads share the node's CPU cores with other ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltrain.hookspecs import hookimpl
from rltrain.launch import cores_of_rank
from rltrain_envpool.env import EnvPoolEnv

if TYPE_CHECKING:
    from rltrain.session import Session


class EnvPoolSuite:
    """Makes environments of the tasks that EnvPool has."""

    @hookimpl
    def rltrain_make_env(self, session: Session) -> EnvPoolEnv:
        """Make this rank's environments."""
        config, threads = session.config, cores_of_rank(session.world)
        return EnvPoolEnv(config.task, config.num_envs or 1, config.env, threads, session)
