"""The suite: embedded tasks run batched on the device; Gymnasium's tasks run behind a converter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv

from rltrain.hookspecs import hookimpl
from rltrain_gymnasium.arrays import make_arrays
from rltrain_gymnasium.batched import BatchedEnv
from rltrain_gymnasium.converted import make_converted
from rltrain_gymnasium.tasks import EMBEDDED, configured

if TYPE_CHECKING:
    from rltrain.session import Session


class GymnasiumSuite:
    """Makes environments of the embedded tasks and of all tasks registered with Gymnasium."""

    @hookimpl
    def rltrain_make_env(self, session: Session) -> VectorEnv[Any, Any, Any]:
        """Make this rank's environments."""
        config = session.config
        num_envs, device = config.num_envs or 1, session.world.device
        if config.task in EMBEDDED:
            task = configured(config.task, config.env)
            return BatchedEnv(task, num_envs, session.framework, device)
        arrays = make_arrays(session.framework, device)
        return make_converted(config.task, num_envs, config.env, arrays, session.renders)
