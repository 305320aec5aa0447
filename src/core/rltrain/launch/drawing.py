"""Whether this machine can draw environments."""

from __future__ import annotations

import functools
import importlib

from rltrain.errors import UsageError

__all__ = ["cannot_draw", "check_mujoco_draws"]


def cannot_draw(error: Exception) -> UsageError:
    """Return the error of environments that could not be drawn."""
    return UsageError(
        f"--video: the environments could not be drawn: {type(error).__name__}: {error}. What "
        "MuJoCo draws needs a display, or the environment variable MUJOCO_GL: egl draws without "
        "one on a GPU, and in software where Mesa is installed; osmesa in software only."
    )


def check_mujoco_draws() -> None:
    """Begin to draw with MuJoCo, for suites whose simulator would do so amid its own work.

    Raises:
        UsageError: it cannot draw here.
    """
    fault = _mujoco_fault()
    if fault is not None:
        raise cannot_draw(fault) from fault


@functools.cache
def _mujoco_fault() -> Exception | None:
    """Return why MuJoCo cannot draw. Asked once: after a failure, a second try ends the process."""
    mujoco = importlib.import_module("mujoco")
    try:
        mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 8, 8).close()
    except Exception as error:
        return error
    return None
