"""The generators that the core itself seeds: those of `random` and numpy."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from rltrain.data import check_generator
from rltrain.hookspecs import hookimpl

__all__ = ["CoreSeeding"]


class CoreSeeding:
    """The core's own implementation of `rltrain_seed`, for the generators of `random` and numpy."""

    @hookimpl
    def rltrain_seed(self, seed: int) -> None:
        """Seed the global generators of the standard library and numpy."""
        import numpy as np

        random.seed(seed)
        np.random.seed(seed)

    @hookimpl
    def rltrain_save_state(self) -> dict[str, Any]:
        """Return the states of the global generators."""
        import numpy as np

        return {"random": random.getstate(), "numpy": np.random.get_state()}

    @hookimpl
    def rltrain_load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the states of the global generators."""
        import numpy as np

        random.setstate(state["random"])
        np.random.set_state(check_generator(state["numpy"]))
