"""The session's environment as rl_games wants it."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from gymnasium.vector import VectorEnv
from rl_games.common.ivecenv import IVecEnv

__all__ = ["RlGamesEnv"]


class RlGamesEnv(IVecEnv):
    """Translates a SAME_STEP `VectorEnv` of torch arrays.

    rl_games bootstraps time-outs from the value of the observation before the last step, so that
    the final observation is not passed on.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        self.env = env

    def reset(self) -> Any:
        """Return the first observations, shape (num_envs, ...)."""
        observations, _ = self.env.reset()
        return _policy(observations)

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Step; `time_outs` are truncations that are not terminations too.

        Returns:
            Observations, rewards (num_envs,), dones (num_envs,) and infos.
        """
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        infos = {"time_outs": truncations & ~terminations, "log": info.get("log", {})}
        dones = (terminations | truncations).byte()
        return _policy(observations), rewards, dones, infos

    def get_env_info(self) -> dict[str, Any]:
        """Return the spaces of one environment."""
        space = self.env.single_observation_space
        if isinstance(space, spaces.Dict):
            space = space["policy"]
        return {
            "observation_space": space,
            "action_space": self.env.single_action_space,
            "agents": 1,
            "value_size": 1,
        }


def _policy(observations: Any) -> Any:
    return observations["policy"] if isinstance(observations, dict) else observations
