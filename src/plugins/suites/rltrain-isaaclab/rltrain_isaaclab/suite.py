"""The suite: starts Isaac Lab on this rank's device, and makes a task's environments."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl

if TYPE_CHECKING:
    from rltrain.session import Session
    from rltrain_isaaclab.app import Launch
    from rltrain_isaaclab.env import IsaacLabEnv

_CAMERA_NAMES = re.compile("RGB|Depth|Camera|Vision|Visuomotor")
"""Found in the names of Isaac Lab's tasks with cameras. Isaac Lab 2 must be started with cameras
enabled before it can read the task's configuration; Isaac Lab 3 reads it first."""

ASSET_ROOT = "ISAACSIM_ASSET_ROOT"
"""The environment variable that says where Isaac Lab 3 finds its files."""


class IsaacLabSuite:
    """Makes environments of Isaac Lab's tasks."""

    @hookimpl
    def rltrain_make_env(self, session: Session) -> IsaacLabEnv:
        """Start Isaac Lab, and make this rank's environments."""
        from rltrain_isaaclab import compat, drawing, options

        config, world = session.config, session.world
        rest, presets = options.without_presets(config.env, config.task)

        def configured() -> Any:
            cfg = options.configured(config.task, rest, presets)
            cfg.scene.num_envs = config.num_envs
            cfg.sim.device = world.device
            cfg.seed = session.seeds.environment
            shown = drawing.check(config.env) if world.is_root else []
            drawing.prepare(
                cfg, shown, _frames(session, cfg), world.is_root and not config.headless
            )
            return cfg

        return _made(session, compat.start(config.task, _launch(session), configured))

    @hookimpl
    def rltrain_describe_task(self, session: Session) -> Mapping[str, Any]:
        """Return what a robot needs: joints, gains, actions, observation terms, and times."""
        from rltrain_isaaclab import compat

        return compat.described(session.env.unwrapped)

    @hookimpl
    def rltrain_shutdown(self, session: Session, error: BaseException | None) -> None:
        """Set this process's exit status; the app stays open, because closing it exits with 0."""
        from rltrain_isaaclab import app

        if isinstance(error, KeyboardInterrupt):
            app.end_with(128 + signal.SIGINT)
        else:
            code = session.result().exit_code if error is None else getattr(error, "exit_code", 1)
            app.end_with(code)


def _launch(session: Session) -> Launch:
    """Return how this rank starts the app; only rank 0 may open a window."""
    from rltrain_isaaclab.app import Launch

    config, world = session.config, session.world
    cameras = config.enable_cameras or session.renders or _CAMERA_NAMES.search(config.task)
    return Launch(
        device=world.device,
        headless=config.headless or not world.is_root,
        enable_cameras=True if cameras else None,
        # With `distributed`, Isaac Lab always uses the device with the local rank's number.
        distributed=world.world_size > 1 and world.device == f"cuda:{world.local_rank}",
    )


def _frames(session: Session, cfg: Any) -> str | None:
    """Return where frames come from with Isaac Lab 3, or None."""
    from rltrain_isaaclab import compat, drawing

    if not session.renders or not hasattr(cfg.sim, "visualizer_cfgs"):
        return None
    return drawing.source(cfg, session.config.env.get("video_source"), compat.needs_kit(cfg))


def _made(session: Session, cfg: Any) -> IsaacLabEnv:
    import torch

    from rltrain_isaaclab import compat
    from rltrain_isaaclab.arrays import make_converter
    from rltrain_isaaclab.drawing import Frames
    from rltrain_isaaclab.env import IsaacLabEnv

    task, device = session.config.task, session.world.device
    with _explained(task):
        env = compat.make(task, cfg, "rgb_array" if session.renders else None)
    if device.startswith("cuda"):
        torch.cuda.set_device(device)  # Isaac Sim changes the current device.
    source = _frames(session, cfg)
    draw = Frames(env, source) if source else env.render
    return IsaacLabEnv(env, make_converter(session.framework, device), draw)


@contextlib.contextmanager
def _explained(task: str) -> Iterator[None]:
    """Turn errors of making a task that tell of what is missing into a `UsageError`."""
    from rltrain_isaaclab import compat

    try:
        yield
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "omni":
            reason = f"takes files from {compat.asset_root()}, and omni.client is not installed"
            raise _lacks_files(task, reason) from error
        reason = f"needs the package {error.name}, which is not installed"
        raise UsageError(f"The task {task!r} {reason}.") from error
    except FileNotFoundError as error:
        raise _lacks_files(task, f"needs a file that is not there: {error}") from error
    except RuntimeError as error:
        if compat.NO_COPY in str(error):
            raise _lacks_files(task, f"needs a file that cannot be read: {error}") from error
        if compat.NEEDS_CAMERAS not in str(error):
            raise
        raise UsageError(
            f"The task {task!r} has cameras, so Isaac Lab must be started with rendering. "
            "Give --enable-cameras."
        ) from error
    except ValueError as error:
        if compat.CANNOT_SEE not in str(error):
            raise
        raise UsageError(f"The task {task!r}: {error}") from error


def _lacks_files(task: str, reason: str) -> UsageError:
    return UsageError(
        f"The task {task!r} {reason.rstrip('.')}. Robots and grounds lie below {ASSET_ROOT}: set "
        "it to a folder, or to the address of a server, that has them."
    )
