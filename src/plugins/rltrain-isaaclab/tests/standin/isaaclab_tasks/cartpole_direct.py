"""The direct tasks: one with more for the critic, one that sees images, one with choices."""

from __future__ import annotations

import torch
from isaaclab.envs import DirectRLEnv


class CartpoleAsymmetricEnv(DirectRLEnv):
    def _get_observations(self):
        return {"policy": self.state[:, ::2], "critic": self.state}


class CartpoleCameraEnv(DirectRLEnv):
    def _get_observations(self):
        """A bright column where the pole's tip is, as uint8, as cameras have it."""
        columns = ((self.state[:, 2] + 1) * 18).long().clamp(0, 35)
        image = torch.zeros(self.num_envs, 36, 36, 3, dtype=torch.uint8, device=self.device)
        image[torch.arange(self.num_envs), :, columns] = 255
        return {"policy": image}


class CartpoleDiscreteEnv(DirectRLEnv):
    def _force(self, action):
        return action.float() - 1.0

    def _get_observations(self):
        return {"policy": self.state}
