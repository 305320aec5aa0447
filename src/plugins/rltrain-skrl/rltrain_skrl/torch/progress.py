"""What goes into skrl's checkpoints besides its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Progress"]


class Progress:
    """What skrl's checkpoints leave out: the iteration, and the schedules."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        """Keep what to save.

        Args:
            parts: by name, with `state_dict` and `load_state_dict`.
        """
        self.iteration = 0
        self._parts = parts

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        return {"iteration": self.iteration, "parts": parts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what a checkpoint holds."""
        self.iteration = int(state["iteration"])
        for name, part in self._parts.items():
            if name in state["parts"]:
                part.load_state_dict(state["parts"][name])
