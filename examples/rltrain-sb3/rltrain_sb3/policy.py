"""Stable-Baselines3's trained policies, as they act. Like `agent.py`, it uses SB3's internals."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.ppo import MlpPolicy
from torch import nn

from rltrain.errors import UsageError, explain_mismatch
from rltrain.policy import PolicyModule
from rltrain.session import Session
from rltrain.types import ArrayInfo
from rltrain_sb3.env import SessionVecEnv
from rltrain_sb3.options import keywords
from rltrain_torch.policy import array_info

__all__ = ["Sb3Policy", "load_policy"]


class Sb3Policy:
    """A policy of PPO or A2C. It reads the group `policy`, and has no recurrent state."""

    groups: tuple[str, ...] = ("policy",)

    def __init__(
        self, model: MlpPolicy, bounds: Bounds, n_steps: int, sde_sample_freq: int
    ) -> None:
        self._model = model
        self._bounds = bounds
        self._n_steps = n_steps
        self._sde_sample_freq = sde_sample_freq
        self._steps = 0

    @torch.no_grad()
    def act(self, observations: Any, deterministic: bool = True) -> torch.Tensor:
        """Choose actions; see `rltrain.policy.Policy`."""
        seen = observations["policy"] if isinstance(observations, dict) else observations
        if self._model.use_sde and not deterministic:
            self._draw_noise(len(seen))
        output, _, _ = self._model(seen, deterministic)
        actions: torch.Tensor = self._bounds(output)
        return actions

    def _draw_noise(self, rows: int) -> None:
        """Draw the noise of state-dependent exploration when SB3's rollouts draw it."""
        step, often = self._steps % self._n_steps, self._sde_sample_freq
        if step == 0:
            self._model.reset_noise(rows)
        if often > 0 and step % often == 0:
            self._model.reset_noise(rows)
        self._steps += 1

    def reset(self, done: Any = None) -> None:
        """Do nothing: there is no recurrent state."""

    def module(self) -> PolicyModule:
        """Return the policy as one function; see `rltrain.policy.Policy`."""
        space = self._model.action_space
        is_box = isinstance(space, spaces.Box)
        dtype = np.result_type(np.float32, space.dtype) if is_box else np.int64
        return PolicyModule(
            function=ExportedPolicy(self._model, self._bounds),
            inputs={"policy": array_info(self._model.observation_space)},
            output=ArrayInfo(tuple(space.shape or ()), np.dtype(dtype).name),
            actions=self._bounds.described(),
        )


class Bounds(nn.Module):
    """Clips what a policy outputs to the bounds of the actions, or scales it to them."""

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, space: spaces.Space[Any], scales: bool) -> None:
        """Keep the bounds.

        Args:
            space: of one action. If it is not a `Box`, the actions are returned unchanged.
            scales: whether the policy squashes its output to [-1, 1].
        """
        super().__init__()
        self._scales = scales
        self._bounded = isinstance(space, spaces.Box)
        if isinstance(space, spaces.Box):
            self.register_buffer("low", torch.tensor(space.low))
            self.register_buffer("high", torch.tensor(space.high))

    def forward(self, output: torch.Tensor) -> torch.Tensor:
        """Return the actions that the environments take."""
        if not self._bounded:
            return output
        if self._scales:
            return self.low + (0.5 * (output + 1.0) * (self.high - self.low))
        return output.clamp(self.low, self.high)

    def described(self) -> dict[str, Any]:
        """Return what is done to the network's output; see `PolicyModule`."""
        if not self._bounded:
            return {}
        if self._scales:
            scale, offset = (self.high - self.low) / 2, (self.high + self.low) / 2
            return {"squash": "tanh", "scale": scale.tolist(), "offset": offset.tolist()}
        return {"low": self.low.tolist(), "high": self.high.tolist()}


class ExportedPolicy(nn.Module):
    """The most likely actions, without torch's distributions: those cannot be exported."""

    def __init__(self, model: MlpPolicy, bounds: Bounds) -> None:
        super().__init__()
        parts = (model.pi_features_extractor, model.mlp_extractor.policy_net, model.action_net)
        self.network = nn.Sequential(*copy.deepcopy(parts)).cpu()
        self.bounds = copy.deepcopy(bounds).cpu()
        self.space = model.observation_space
        self.actions = model.action_space
        self.squashes = model.squash_output

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor]:
        """Return the actions, shape (B, *shape), in a tuple."""
        space, output = self.actions, self.network(preprocess_obs(observations, self.space))
        if isinstance(space, spaces.Discrete):
            return (output.argmax(-1),)
        if isinstance(space, spaces.MultiDiscrete):
            each = [logits.argmax(-1) for logits in output.split(space.nvec.tolist(), dim=-1)]
            return (torch.stack(each, -1),)
        if self.squashes:
            output = output.tanh()
        return (self.bounds(output.reshape(-1, *(space.shape or ()))),)


def load_policy(session: Session) -> Sb3Policy:
    """Load the policy of a session's checkpoint, or of a zip file that SB3 itself has saved.

    Raises:
        UsageError: the checkpoint does not fit the options or the task.
    """
    options, device = keywords(session.config.agent, session.config.algorithm), session.world.device
    if options.get("policy") != "MlpPolicy":
        raise UsageError(f"agent.policy={options.get('policy')}: only MlpPolicy is supported.")
    env = SessionVecEnv(session.env, device)
    assert session.checkpoint is not None, "the caller names a checkpoint"
    with explain_mismatch(session.checkpoint):
        # Without `load_data`: that would run code that the file may name.
        _, saved, _ = load_from_zip_file(session.checkpoint, load_data=False, device=device)
        model = MlpPolicy(
            env.observation_space,
            env.action_space,
            lambda _: 0.0,  # The learning rate of an optimizer that is not used.
            use_sde=options.get("use_sde", False),
            **(options.get("policy_kwargs") or {}),
        )
        weights: Any = saved["policy"]
        model.load_state_dict(weights)
    model.to(device).set_training_mode(False)
    bounds = Bounds(env.action_space, model.squash_output).to(device)
    return Sb3Policy(model, bounds, options["n_steps"], options.get("sde_sample_freq", -1))
