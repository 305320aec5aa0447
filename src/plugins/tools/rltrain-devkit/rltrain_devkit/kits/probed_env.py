"""An environment wrapper that reports the library's calls to a probe. Imports Gymnasium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium.vector import VectorEnv, VectorWrapper


class ProbedEnv(VectorWrapper):  # type: ignore[type-arg]
    """Passes all calls on, and calls back on reset and step."""

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        on_reset: Callable[[Any], None],
        on_step: Callable[[Any], None],
        on_result: Callable[[Any, Any], None],
    ) -> None:
        """Wrap an environment.

        Args:
            env: the environment that a suite made.
            on_reset: called with the observations after every reset.
            on_step: called with the actions before every step.
            on_result: called after it, with the observations and which episodes have ended.
        """
        super().__init__(env)
        self._on_reset = on_reset
        self._on_step = on_step
        self._on_result = on_result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset, and pass the observations to the callback."""
        observations, info = self.env.reset(seed=seed, options=options)
        self._on_reset(observations)
        return observations, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, between the callbacks."""
        self._on_step(actions)
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        self._on_result(observations, terminations | truncations)
        return observations, rewards, terminations, truncations, info
