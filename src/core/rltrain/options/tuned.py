"""Options that are known to learn a task: a suite keeps them, one file a task and library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rltrain.options.files import load_yaml
from rltrain.types import TaskInfo

__all__ = ["MANY_ENVS", "tuned_in"]

MANY_ENVS = 64
"""From this number of environments per rank on, a library's defaults take short rollouts: they
learn faster than the long ones that few environments need."""


def tuned_in(folder: Path) -> Callable[[TaskInfo, str, str], Mapping[str, Any] | None]:
    """Return what a suite declares as `SuiteSpec.tuned`, if it keeps its options in a folder.

    Args:
        folder: holds `TASK/LIBRARY_ALGORITHM.yaml`, such as `Hopper-v4/rsl_rl_ppo.yaml`, in the
            library's own format. A "/" in a task's name is written "-".
    """

    def tuned(task: TaskInfo, library: str, algorithm: str) -> Mapping[str, Any] | None:
        path = folder / task.name.replace("/", "-") / f"{library}_{algorithm}.yaml"
        return load_yaml(str(path), "the tuned options") if path.is_file() else None

    return tuned
