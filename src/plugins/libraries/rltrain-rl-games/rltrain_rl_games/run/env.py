"""The session's environment with rl_games' interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces
from gymnasium.vector import VectorEnv
from rl_games.common.ivecenv import IVecEnv

from rltrain.errors import UsageError
from rltrain_rl_games.declare.options import GROUPS_NETWORK
from rltrain_rl_games.run.spaces import Conversion, Wrapping


class RlGamesEnv(IVecEnv):
    """Adapts a `VectorEnv` of torch arrays with SAME_STEP autoreset.

    rl_games bootstraps time-outs from the value of the observation before the last step, so it does
    not need the final observation.

    Args:
        env: the environments.
        states: whether a separate critic has observations of its own; see `Conversion`.
        wrapping: bounds, and the choice of other groups.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        states: bool = False,
        wrapping: Wrapping | None = None,
    ) -> None:
        self.env = env
        self.conversion = Conversion(
            env.single_observation_space, env.single_action_space, wrapping or Wrapping()
        )
        self._names = ("obs", "states") if states else ("obs",)

    def reset(self) -> Any:
        """Return the first observations, shape (num_envs, ...)."""
        observations, _ = self.env.reset()
        return self._convert(observations)

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Step all environments.

        Returns:
            Observations; rewards and dones, shape (num_envs,); infos, with the truncations that
            are not terminations as `time_outs`.
        """
        observations, rewards, terminations, truncations, info = self.env.step(
            self.conversion.actions(actions)
        )
        infos = {"time_outs": truncations & ~terminations, "log": info.get("log", {})}
        dones = (terminations | truncations).byte()
        return self._convert(observations), rewards, dones, infos

    def get_env_info(self) -> dict[str, Any]:
        """Return the spaces of one environment."""
        info = {
            "observation_space": self.conversion.space("obs"),
            "action_space": self.conversion.action_space(),
            "agents": 1,
            "value_size": 1,
        }
        if "states" in self._names:
            info["state_space"] = self.conversion.space("states")
        return info

    def _convert(self, observations: Any) -> Any:
        if len(self._names) == 1 and not self.conversion.keeps_groups("obs"):
            return self.conversion.observations(observations, "obs")
        return {name: self.conversion.observations(observations, name) for name in self._names}


def adapted_env(env: VectorEnv[Any, Any, Any], params: Mapping[str, Any]) -> RlGamesEnv:
    """Return the environments as the options `params` have them wrapped."""
    states = params["config"].get("central_value_config") is not None
    adapted = RlGamesEnv(env, states, Wrapping.read(params))
    check_observations(adapted, params)
    return adapted


def check_observations(env: RlGamesEnv, params: Mapping[str, Any]) -> None:
    """Check what is known only once the environments exist."""
    unseen = env.conversion.unseen_images()
    if unseen:
        raise UsageError(
            f"The task has images outside the group `policy`, {', '.join(unseen)}, which rl_games' "
            "actor would not see. List the groups that it reads in "
            "agent.params.env.obs_groups.obs; for images with a vector, also give "
            "agent.params.env.concate_obs_groups=false and "
            f"agent.params.network.name={GROUPS_NETWORK}."
        )
    info = env.get_env_info()
    for name, group in (("observation_space", "policy"), ("state_space", "critic")):
        parts = [info.get(name)]
        if isinstance(parts[0], spaces.Dict) and params["network"]["name"] == GROUPS_NETWORK:
            parts = list(parts[0].values())
        others = [part for part in parts if part is not None and not isinstance(part, spaces.Box)]
        if others:
            raise UsageError(
                f"The observation group {group!r} is, or contains, {others[0]}, which rl_games' "
                "networks and normalize_input cannot read. Make each group one array (Box), or "
                "use --library skrl, whose options can name parts."
            )
    shape = info["observation_space"].shape
    if params["algo"]["name"] == "sac" and (shape is None or len(shape) != 1):
        raise UsageError(
            "rl_games' SAC reads only vectors; the task's observations have the shape "
            f"{shape}. Use --algorithm ppo with params.network.cnn."
        )
