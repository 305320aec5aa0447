"""The session's environment with rsl_rl's interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rltrain.errors import UsageError
from rltrain_rsl_rl.run.spaces import Actions, Observations


class RslRlEnv(VecEnv):
    """Adapts a `gymnasium.vector.VectorEnv` with SAME_STEP autoreset to rsl_rl's `VecEnv`.

    `Observations` and `Actions` convert what goes through it. `cfg` is the suite's configuration
    object, or an empty mapping.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        device: str,
        clip_actions: float | None = None,
        sets: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """Reset the environments; `clip_actions` is that of users' files, for `Actions`."""
        self.env = env
        self.device = device
        self.num_envs = env.num_envs
        self.cfg = getattr(env.unwrapped, "cfg", {})
        self._groups = Observations(env.single_observation_space, sets)
        self._actions = Actions(env.single_action_space, clip_actions).to(device)
        self.num_actions = self._actions.size
        self._observations = self._convert(env.reset()[0])

    @property
    def unwrapped(self) -> Any:
        """The suite's environment, from which extensions of rsl_rl read `step_dt`."""
        return self.env.unwrapped

    @property
    def max_episode_length(self) -> int | torch.Tensor:
        """Steps after which an episode is truncated."""
        self._check_offers("max_episode_length")
        length: int | torch.Tensor = self.env.unwrapped.max_episode_length  # type: ignore[attr-defined]
        return length

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps of each environment's current episode, shape (num_envs,)."""
        self._check_offers("episode_length_buf")
        lengths: torch.Tensor = self.env.unwrapped.episode_length_buf  # type: ignore[attr-defined]
        return lengths

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: torch.Tensor) -> None:
        self.env.unwrapped.episode_length_buf = lengths  # type: ignore[attr-defined]

    def get_observations(self) -> TensorDict:
        """Return the current observations, batch size [num_envs]."""
        return self._observations

    def step(
        self, actions: torch.Tensor
    ) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step all environments.

        Args:
            actions: the policy's output, shape (num_envs, num_actions).

        Returns:
            Observations; rewards and dones, shape (num_envs,); extras with "time_outs", shape
            (num_envs,), the truncations that are not terminations, and "log" if there is one.
        """
        # rsl_rl steps in inference mode. A simulator could not change tensors that it created
        # there in place later, outside of inference mode.
        with torch.inference_mode(False), torch.no_grad():
            observations, rewards, terminations, truncations, info = self.env.step(
                self._actions(actions)
            )
            self._observations = self._convert(observations)
            dones = (terminations | truncations).to(self.device)
            extras: dict[str, Any] = {"time_outs": (truncations & ~terminations).to(self.device)}
        if isinstance(info.get("log"), Mapping):
            extras["log"] = dict(info["log"])
        return (
            self._observations,
            rewards.to(self.device, torch.float32),
            dones.to(torch.long),
            extras,
        )

    def _convert(self, observations: Any) -> TensorDict:
        return self._groups.convert(self._groups.groups(observations), self.device)

    def _check_offers(self, name: str) -> None:
        if not hasattr(self.env.unwrapped, name):
            raise UsageError(
                f"agent.init_at_random_ep_len: the task's environment does not offer {name}. Leave "
                "the option out."
            )
