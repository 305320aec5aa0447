"""A MuJoCo scene to look at, apart from the simulation. Imported only where MuJoCo is."""

from __future__ import annotations

import copy
import importlib
from typing import Any


def has_scene(env: Any) -> bool:
    """Return whether environments offer `mujoco_scene`; see docs/environments.md."""
    return getattr(env.unwrapped, "mujoco_scene", None) is not None


class Scene:
    """Copies of an environment's MuJoCo model and data: viewers write to theirs.

    Attributes:
        model: the copy of the first environment's `mujoco.MjModel`.
        data: its `mujoco.MjData`.
    """

    def __init__(self, env: Any) -> None:
        """Copy the first environment's model, for all environments.

        Args:
            env: environments that offer `mujoco_scene`. They have been reset.
        """
        self._mujoco = importlib.import_module("mujoco")
        self._look = env.unwrapped.mujoco_scene
        self.model: Any = copy.copy(self._look(0)[0])
        self.data: Any = self._mujoco.MjData(self.model)
        self.update(0)

    def update(self, environment: int) -> None:
        """Copy the state of an environment."""
        self._mujoco.mj_copyData(self.data, self.model, self._look(environment)[1])

    @property
    def extent(self) -> float:
        """About how far what moves reaches, in m: a floor is often far larger than a robot.

        It is measured from the first body that can be moved, by joints or as a mocap body: what
        cameras follow.
        """
        import numpy as np

        model, data = self.model, self.data
        moves = model.body_weldid[model.geom_bodyid] != 0
        if not moves.any():
            return float(model.stat.extent)
        followed = ((model.body_weldid != 0) | (model.body_mocapid >= 0)).argmax()
        apart = np.linalg.norm(data.geom_xpos[moves] - data.xpos[followed], axis=1)
        return float((apart + model.geom_rbound[moves]).max())

    @property
    def body(self) -> int:
        """The first body that moves; 0, the world, if none does."""
        return int((self.model.body_weldid != 0).argmax())
