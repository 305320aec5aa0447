"""The direct tasks: one with critic observations, one with images, one with discrete actions."""

from __future__ import annotations

import torch
from isaaclab.envs import DirectRLEnv


class CartpoleAsymmetricEnv(DirectRLEnv):
    def _get_observations(self):
        return {"policy": self.state[:, ::2], "critic": self.state}


class CartpoleCameraEnv(DirectRLEnv):
    def _get_observations(self):
        """Colors minus their mean over the image of a tiled camera: a column at the pole's tip."""
        image = torch.zeros(self.num_envs, 36, 36, 3)
        columns = ((self.state[:, 2] + 1) * 18).long().clamp(0, 35)
        image[torch.arange(self.num_envs), :, columns] = 1.0
        return {"policy": image - image.mean(dim=(1, 2), keepdim=True)}


class CartpoleDiscreteEnv(DirectRLEnv):
    def _force(self, action):
        return action.float() - 1.0

    def _get_observations(self):
        return {"policy": self.state}
