"""Environments that are recorded step by step. Imported only when videos are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv, VectorWrapper

if TYPE_CHECKING:
    _Wrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:  # Generic only since Gymnasium 1.4.
    _Wrapper = VectorWrapper


class RecordedEnv(_Wrapper):
    """Calls a function after every step.

    Attributes that a suite adds to its environment can be read through this wrapper.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], record: Callable[[], None]) -> None:
        """Wrap a rank's environments."""
        super().__init__(env)
        self._record = record

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments and record them."""
        stepped = self.env.step(actions)
        self._record()
        return stepped
