"""What only some of the supported versions of torch have, each in one place, with the reason."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["shutdown_timeout"]


def shutdown_timeout(seconds: int) -> dict[str, Any]:
    """Return the option of `LaunchConfig` by which ranks that do not end are killed sooner.

    torch has it from 2.12; before, ranks have 30 seconds. Only one that ignores SIGTERM notices:
    see `rltrain.worker`.
    """
    from torch.distributed.launcher.api import LaunchConfig

    known = {field.name for field in dataclasses.fields(LaunchConfig)}
    return {"shutdown_timeout": seconds} if "shutdown_timeout" in known else {}
