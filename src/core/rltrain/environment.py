"""The environment of a rank as the adapters see it. Imported only when an environment is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper  # noqa: TID253

from rltrain.errors import PluginError
from rltrain.statistics import EpisodeCounter

__all__ = ["CountedEnv", "check_env"]


if TYPE_CHECKING:
    _Wrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:  # Generic only since Gymnasium 1.4.
    _Wrapper = VectorWrapper


class CountedEnv(_Wrapper):
    """Counts frames, returns and lengths, so that every library reports the same figures.

    What a suite adds to its environment (`max_episode_length`, `get_state`, ...) is read through
    this wrapper, and set on `unwrapped`.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: int) -> None:
        super().__init__(env)
        self.episodes = EpisodeCounter()
        self._seed: int | None = seed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments; the first time with this rank's seed."""
        if seed is None:
            seed, self._seed = self._seed, None
        self.episodes.restart()
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments and count."""
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        self.episodes.step(rewards, terminations, truncations)
        return observations, rewards, terminations, truncations, info


def check_env(env: VectorEnv[Any, Any, Any], num_envs: int, suite: str) -> None:
    """Check what crosses from the suite to the library.

    Raises:
        PluginError: the suite did not make what was asked for.
    """
    if env.num_envs != num_envs:
        raise PluginError(
            f"The suite {suite!r} made {env.num_envs} environments; {num_envs} were asked for."
        )
    mode = env.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise PluginError(
            f"The suite {suite!r} made an environment with autoreset mode {mode}; it must give "
            "SAME_STEP (metadata['autoreset_mode'])."
        )
