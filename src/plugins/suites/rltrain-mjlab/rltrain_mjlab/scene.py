"""The MuJoCo scene of one of mjlab's environments, for viewers.

This file is the only one that uses what mjlab's own viewers do: its simulation keeps the states of
all environments, and what differs between their models, in arrays of Warp.
"""

from __future__ import annotations

import copy
from typing import Any

import mujoco
from mjlab.viewer.model_sync import (
    VIEWER_MODEL_FIELDS,
    disable_model_sameframe_shortcuts,
    sync_model_fields,
)

__all__ = ["Scene"]


class Scene:
    """A model and its data on the host, which show any of the environments."""

    def __init__(self, sim: Any) -> None:
        """Copy the model.

        Args:
            sim: mjlab's simulation.
        """
        self._sim = sim
        self._model = copy.copy(sim.mj_model)
        disable_model_sameframe_shortcuts(self._model)
        self._data = mujoco.MjData(self._model)

    def of(self, index: int) -> tuple[Any, Any]:
        """Return model and data as they are in one environment."""
        fields = self._sim.expanded_fields & VIEWER_MODEL_FIELDS
        sync_model_fields(self._model, self._sim.model, fields, index)
        for name in ("qpos", "qvel", "mocap_pos", "mocap_quat"):
            to = getattr(self._data, name)
            if to.size:
                to[:] = getattr(self._sim.data, name)[index].cpu().numpy()
        mujoco.mj_forward(self._model, self._data)
        return self._model, self._data
