"""The suite: starts Isaac Lab on this rank's device, and makes a task's environments."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl

if TYPE_CHECKING:
    from rltrain.session import Session
    from rltrain_isaaclab.compat import Launch
    from rltrain_isaaclab.env import IsaacLabEnv

__all__ = ["IsaacLabSuite"]

_SEES = re.compile("RGB|Depth|Camera|Vision|Visuomotor")
"""In the names of Isaac Lab's tasks that have cameras. Isaac Lab 2 has to be told when it starts,
before it can look at the task; Isaac Lab 3 finds out."""
_PRESETS = ("presets", "physics", "renderer")
"""What Isaac Lab 3's users type beside `env.` and `agent.` options."""


class IsaacLabSuite:
    """Makes environments of Isaac Lab's tasks."""

    @hookimpl
    def rltrain_make_env(self, session: Session) -> IsaacLabEnv:
        """Start Isaac Lab, and make this rank's environments.

        Raises:
            UsageError: an `env.` option is wrong, or the task has several agents.
        """
        from rltrain_isaaclab import compat, options

        config, world = session.config, session.world
        rest, own = options.taken_out(config.env, *_PRESETS)

        def complete(cfg: Any) -> None:
            if compat.has_several_agents(cfg):
                raise UsageError(f"The task {config.task!r} has several agents.")
            cfg.scene.num_envs = config.num_envs
            cfg.sim.device = world.device
            cfg.seed = session.seeds.environment
            options.change(cfg, rest, config.task)

        launch = _launch(session)
        presets = [f"{name}={_joined(own[name])}" for name in _PRESETS if name in own]
        try:
            cfg = compat.start(config.task, launch, presets, complete)
        except ValueError as error:
            if not presets:
                raise
            raise UsageError(
                f"env.{' env.'.join(presets)} (task {config.task}): {error}"
            ) from error
        return _made(session, cfg)

    @hookimpl
    def rltrain_shutdown(self, session: Session, error: BaseException | None) -> None:
        """Leave the app to the end of the process, whose exit status it would set."""
        from rltrain_isaaclab import compat

        if isinstance(error, KeyboardInterrupt):
            compat.end_with(128 + signal.SIGINT)
        else:
            compat.end_with(0 if error is None else getattr(error, "exit_code", 1))


def _launch(session: Session) -> Launch:
    """Return how this rank starts the app: only the first one has a window, and is recorded."""
    from rltrain_isaaclab.compat import Launch

    config, world = session.config, session.world
    cameras = config.enable_cameras or session.renders or _SEES.search(config.task)
    return Launch(
        device=world.device,
        headless=config.headless or not world.is_root,
        enable_cameras=True if cameras else None,
        # Isaac Lab then takes the device that has the local rank's number.
        distributed=world.world_size > 1 and world.device == f"cuda:{world.local_rank}",
    )


def _made(session: Session, cfg: Any) -> IsaacLabEnv:
    import torch

    from rltrain_isaaclab import compat
    from rltrain_isaaclab.arrays import make_crossing
    from rltrain_isaaclab.env import IsaacLabEnv

    task, device = session.config.task, session.world.device
    try:
        env = compat.make(task, cfg, "rgb_array" if session.renders else None)
    except RuntimeError as error:
        if compat.NEEDS_CAMERAS not in str(error):
            raise
        raise UsageError(
            f"The task {task!r} has cameras, for which Isaac Lab has to be started with rendering. "
            "Give --enable-cameras."
        ) from error
    if device.startswith("cuda"):
        torch.cuda.set_device(device)  # Isaac Sim has moved it.
    return IsaacLabEnv(env, make_crossing(session.framework, device))


def _joined(names: Any) -> str:
    return ",".join(str(name) for name in names) if isinstance(names, list) else str(names)
