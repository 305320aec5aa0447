"""What skrl's jax agents leave out of their checkpoints, and this plugin adds."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class Progress:
    """What skrl's checkpoints leave out: the iteration, learning rates and counters."""

    def __init__(self, agent: Any, names: Callable[[], list[str]]) -> None:
        """Keep what to save."""
        self.iteration = 0
        self._agent = agent
        self._names = names

    @property
    def state_dict(self) -> Any:
        """The numbers under the names with which skrl's checkpoints read and set parameters."""
        own = {name: _number(getattr(self._agent, name)) for name in self._names()}
        return SimpleNamespace(
            params={"iteration": self.iteration, "agent": own}, replace=lambda params: params
        )

    @state_dict.setter
    def state_dict(self, state: Any) -> None:
        self.iteration = int(state["iteration"])
        for name, value in state["agent"].items():
            setattr(self._agent, name, value)


def _number(value: Any) -> int | float:
    return value if isinstance(value, int) else float(value)
