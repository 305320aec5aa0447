"""Describes mjlab's own tasks without importing mjlab, which takes six seconds."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import distributions, entry_points
from typing import NamedTuple

from rltrain.types import ArrayInfo, TaskInfo

GROUPS: Mapping[str, str] = {"actor": "policy"}
"""rltrain's names of observation groups, by mjlab's names, where they differ."""

SAME_SPACES = frozenset(
    ("commands", "curriculum", "decimation", "episode_length_s", "events", "play", "rewards")
) | {"sim", "terminations", "viewer"}
"""The parts of mjlab's configurations that do not change the spaces."""

NUM_ENVS = 256
"""The default number of environments per rank. mjlab's own guides use 4096 on a GPU."""


class Bundled(NamedTuple):
    """Facts about a task that otherwise only its environment knows."""

    length: int
    """The length of an episode, in steps."""
    policy: int
    """The size of the group `policy`."""
    critic: int
    """The size of the group `critic`."""
    actions: int
    """The number of action components."""
    camera: tuple[int, int, int] | None = None
    """Height, width and channels of the group `camera`, if there is one."""


BUNDLED = {
    "Mjlab-Cartpole-Balance": Bundled(1000, 5, 5, 1),
    "Mjlab-Cartpole-Swingup": Bundled(1000, 5, 5, 1),
    "Mjlab-Velocity-Flat-Unitree-Go1": Bundled(1000, 48, 72, 12),
    "Mjlab-Velocity-Rough-Unitree-Go1": Bundled(1000, 235, 259, 12),
    "Mjlab-Velocity-Flat-Unitree-G1": Bundled(1000, 99, 111, 29),
    "Mjlab-Velocity-Rough-Unitree-G1": Bundled(1000, 286, 298, 29),
    "Mjlab-Lift-Cube-Yam": Bundled(1000, 29, 29, 7),
    "Mjlab-Lift-Cube-Yam-Depth": Bundled(1000, 26, 29, 7, (32, 32, 1)),
    "Mjlab-Lift-Cube-Yam-Rgb": Bundled(1000, 26, 29, 7, (32, 32, 3)),
    "Mjlab-Multi-Cube-Seg-Yam": Bundled(1000, 26, 26, 7, (32, 32, 2)),
    "Mjlab-Tracking-Flat-Unitree-G1": Bundled(500, 160, 286, 29),
    "Mjlab-Tracking-Flat-Unitree-G1-No-State-Estimation": Bundled(500, 154, 286, 29),
}
"""mjlab's own tasks by name."""
if any(each.version.startswith("1.2.") for each in distributions(name="mjlab")):
    for new in ("Cartpole-Balance", "Cartpole-Swingup", "Multi-Cube-Seg-Yam"):
        del BUNDLED[f"Mjlab-{new}"]


def bundled_info(name: str) -> TaskInfo:
    """Describe one of mjlab's own tasks."""
    task = BUNDLED[name]
    groups = {"policy": ArrayInfo((task.policy,)), "critic": ArrayInfo((task.critic,))}
    if task.camera is not None:
        groups["camera"] = ArrayInfo(task.camera)
    return task_info(name, task.length, groups, (task.actions,))


def task_info(
    name: str,
    length: int | None,
    observations: Mapping[str, ArrayInfo] | None = None,
    actions: tuple[int, ...] | None = None,
) -> TaskInfo:
    """Describe a task of mjlab's registry; all of them have continuous actions."""
    return TaskInfo(
        name,
        "continuous",
        num_envs=NUM_ENVS,
        max_episode_length=length,
        random_lengths=True,  # As mjlab's training script for rsl_rl does.
        observations=observations,
        actions=actions,
    )


def packages() -> list[str]:
    """Return the other packages that declare tasks of mjlab."""
    return [point.module for point in entry_points(group="mjlab.tasks")]
