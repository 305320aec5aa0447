"""Bugs of skrl that this plugin works around for every framework, for skrl 2.1.0 to 2.1.1.

`torch/workarounds.py` and `jax/workarounds.py` have those of one framework.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from rltrain_skrl.agent import SessionAgent


@contextlib.contextmanager
def restored_hash_seed() -> Iterator[None]:
    """Restore PYTHONHASHSEED: skrl sets it with its seed, for all processes started afterwards."""
    before = os.environ.get("PYTHONHASHSEED")
    try:
        yield
    finally:
        os.environ.pop("PYTHONHASHSEED", None)
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


class SacMetrics(SessionAgent):
    """Mixin for skrl's SAC: it tracks its metrics only if it has an interval to write them.

    skrl's other agents always track them, and `SessionAgent` turns its writer off.
    """

    write_interval: int

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn; see skrl."""
        self.write_interval = 1
        super().update(timestep=timestep, timesteps=timesteps)
        self.write_interval = 0
