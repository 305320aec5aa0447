"""Whether this machine can render environments."""

from __future__ import annotations

import functools
import importlib

from rltrain.errors import UsageError


def cannot_draw(error: Exception) -> UsageError:
    """Return the error for environments that could not be rendered."""
    return UsageError(
        "--video, a viewer, or an observer that renders: the environments could not be rendered: "
        f"{type(error).__name__}: {error}. MuJoCo needs a display, or the environment variable "
        "MUJOCO_GL: egl renders without a display, on a GPU or, with Mesa, in software; osmesa "
        "renders in software."
    )


def check_mujoco_draws() -> None:
    """Check early that MuJoCo can render, for suites whose simulator would find out too late.

    Raises:
        UsageError: MuJoCo cannot render here.
    """
    fault = _mujoco_fault()
    if fault is not None:
        raise cannot_draw(fault) from fault


@functools.cache
def _mujoco_fault() -> Exception | None:
    """Return why MuJoCo cannot render. Cached: after a failure, a second try kills the process."""
    mujoco = importlib.import_module("mujoco")
    try:
        mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 8, 8).close()
    except Exception as error:
        return error
    return None
