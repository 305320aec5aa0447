"""The MuJoCo scene of one of mjlab's environments, for viewers.

This file is the only one that uses what mjlab's own viewers do: its simulation keeps the states of
all environments, and what differs between their models, in arrays of Warp.
"""

from __future__ import annotations

import copy
from typing import Any

import mujoco


class Scene:
    """A model and its data on the host, which show any of the environments."""

    def __init__(self, sim: Any) -> None:
        """Copy the model."""
        self._sim = sim
        self._model = copy.copy(sim.mj_model)
        # Warp always takes the whole way from a body to its parts, which may differ.
        for part in ("body", "geom", "site"):
            getattr(self._model, f"{part}_sameframe")[:] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
        self._model.body_simple[:] = 0
        self._data = mujoco.MjData(self._model)

    def of(self, index: int) -> tuple[Any, Any]:
        """Return model and data as they are in one environment."""
        for name in self._sim.expanded_fields:
            to = getattr(self._model, name, None)
            if to is not None:  # Else it is of Warp alone.
                to[:] = getattr(self._sim.model, name)[index].cpu().numpy().reshape(to.shape)
        for name in ("qpos", "qvel", "mocap_pos", "mocap_quat"):
            to = getattr(self._data, name)
            if to.size:
                to[:] = getattr(self._sim.data, name)[index].cpu().numpy()
        mujoco.mj_forward(self._model, self._data)
        return self._model, self._data
