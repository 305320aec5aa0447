"""The suite: mjlab's batched environments, on the rank's device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rltrain.hookspecs import hookimpl

if TYPE_CHECKING:
    from rltrain.session import Session
    from rltrain_mjlab.env import MjlabEnv


class MjlabSuite:
    """Makes environments of the tasks in mjlab's registry."""

    @hookimpl
    def rltrain_make_env(self, session: Session) -> MjlabEnv:
        """Make this rank's environments."""
        config, device = session.config, session.world.device
        from rltrain_mjlab.config import with_options
        from rltrain_mjlab.env import MjlabEnv

        settings = with_options(config.task, config.env)
        settings.scene.num_envs = config.num_envs or 1
        settings.seed = session.seeds.environment
        return MjlabEnv(config.task, settings, device, session.renders)

    @hookimpl
    def rltrain_describe_task(self, session: Session) -> Mapping[str, Any]:
        """Return mjlab's own metadata of the task."""
        from rltrain_mjlab.description import describe

        name = session.checkpoint.name if session.checkpoint is not None else "local"
        return describe(session.env.unwrapped.simulation, name)  # type: ignore[attr-defined]
