"""The session's environments behind skrl's wrapper, for every framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from gymnasium.vector import VectorEnv

from rltrain_skrl.run.spaces import Conversion, Space

FINAL = "final"
"""Key of `info` with (observations, states, mask): the final observations of ended episodes."""


class SessionEnv:
    """Mixin for skrl's wrapper class: flat observations (N, D), and columns (N, 1) for the rest."""

    conversion_class: ClassVar[type[Conversion]]

    # skrl's, used by this class.
    _env: VectorEnv[Any, Any, Any]

    def __init__(self, env: VectorEnv[Any, Any, Any], device: Any, log_key: str) -> None:
        """Wrap the environments.

        Args:
            env: with arrays of the framework on `device`, and SAME_STEP autoreset.
            device: this rank's device, as the framework knows it.
            log_key: the key of `info` under which skrl's trainer expects metrics.
        """
        super().__init__(env)  # type: ignore[call-arg]
        self._device = device
        self._log_key = log_key
        self._conversion = self.conversion_class(
            env.single_observation_space, env.single_action_space, device
        )
        self._flatten: Callable[[Any], tuple[Any, Any]] = self._conversion.flat
        self._observations: Any = None
        self._states: Any = None

    @property
    def num_envs(self) -> int:
        """Environments of this rank: N."""
        return int(self._env.num_envs)

    @property
    def observation_space(self) -> Space:
        """Space of one environment's observation."""
        return self._conversion.observation_space

    @property
    def state_space(self) -> Space | None:
        """Space of one environment's state, or None."""
        return self._conversion.state_space

    @property
    def action_space(self) -> Space:
        """Space of one environment's action."""
        return self._conversion.action_space

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Return the current observations; only the first call resets.

        skrl's trainer resets a single environment when its episode ends, but `step` has done so
        already: a second reset would throw an episode away.
        """
        if self._observations is None:
            observations, _ = self._env.reset()
            self._observations, self._states = self._flatten(observations)
        return self._observations, {}

    def state(self) -> Any:
        """Return the states that belong to the last observations, (N, S), or None."""
        return self._states

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Render if a window is open; skrl calls it in every step of a run with a window."""
        return self._env.render() if self._env.render_mode == "human" else None

    def close(self) -> None:
        """Do nothing: the session closes the environments."""


def replace_next_observations(
    transition: Mapping[str, Any], final: Any, truncated: Any, where: Callable[..., Any]
) -> dict[str, Any]:
    """Return the next observations and states that skrl is to bootstrap from after a time limit.

    skrl takes the value of the next observations, but with SAME_STEP autoreset those belong to the
    next episode. The final observations replace them. If the task does not give any, the
    observations of the step before do: they are one step away.

    Args:
        transition: observations and states of a step, and the next ones.
        final: what `info` has under `FINAL`, or None.
        truncated: mask of the episodes that a time limit ended, shape (N, 1).
        where: the framework's.
    """
    changed = {}
    for index, name in enumerate(("observations", "states")):
        last = transition[name]
        if last is None:
            continue
        if final is not None:
            last = where(final[2], final[index], last)
        changed[f"next_{name}"] = where(truncated, last, transition[f"next_{name}"])
    return changed
