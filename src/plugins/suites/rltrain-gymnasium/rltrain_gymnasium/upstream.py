"""What of Gymnasium's own vector environment is done otherwise, with the reason.

`tests/test_gymnasium_upstream.py` checks it against the installed version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import SyncVectorEnv

if TYPE_CHECKING:  # Before 1.3, it is not generic when it runs.
    _VectorEnv = SyncVectorEnv[Any, Any]
else:
    _VectorEnv = SyncVectorEnv


class AnyInfoVectorEnv(_VectorEnv):
    """Takes infos whose values have another shape or type in each environment and step.

    `vector/vector_env.py` makes an array for the first environment's value and fails, in some step
    of a run, when another's does not fit: the contacts of a robot, say, or a path. Then the array
    becomes one of objects.
    """

    def _add_info(
        self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int
    ) -> dict[str, Any]:
        for key, value in env_info.items():
            try:
                vector_infos = super()._add_info(vector_infos, {key: value}, env_num)
            except (AttributeError, OverflowError, TypeError, ValueError):
                self._add_object(vector_infos, key, value, env_num)
        return vector_infos

    def _add_object(self, infos: dict[str, Any], key: str, value: Any, index: int) -> None:
        mask: npt.NDArray[np.bool_] = infos.setdefault(f"_{key}", np.zeros(self.num_envs, np.bool_))
        values = np.full(self.num_envs, None, dtype=object)
        for other in np.flatnonzero(mask):
            values[other] = infos[key][other]
        values[index], mask[index] = value, True
        infos[key] = values
