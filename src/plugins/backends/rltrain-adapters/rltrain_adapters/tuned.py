"""Options that are known to learn a task. A suite stores one file for each task and library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rltrain.options import load_yaml
from rltrain.types import TaskInfo

MANY_ENVS = 64
"""With at least this many environments per rank, a library's defaults use short rollouts, which
learn faster. Fewer environments need long ones."""


def tuned_in(folder: Path) -> Callable[[TaskInfo, str, str], Mapping[str, Any] | None]:
    """Return a function for `SuiteSpec.tuned` that reads the options from a folder.

    Args:
        folder: holds `TASK/LIBRARY_ALGORITHM.yaml`, such as `Hopper-v4/rsl_rl_ppo.yaml`, in the
            library's own format. A "/" in a task's name is written "-".
    """

    def tuned(task: TaskInfo, library: str, algorithm: str) -> Mapping[str, Any] | None:
        path = folder / task.name.replace("/", "-") / f"{library}_{algorithm}.yaml"
        return load_yaml(str(path), "the tuned options") if path.is_file() else None

    return tuned
