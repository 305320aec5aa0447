"""The direct tasks: one with critic observations, one with images, one with discrete actions."""

from __future__ import annotations

import torch
from isaaclab.envs import DirectRLEnv


class CartpoleAsymmetricEnv(DirectRLEnv):
    def _get_observations(self):
        return {"policy": self.state[:, ::2], "critic": self.state}


class CartpoleCameraEnv(DirectRLEnv):
    def _get_observations(self):
        """Colors minus their mean over the image, or depths with infinite values set to 0."""
        if "rgb" in self.cfg.tiled_camera.data_types:
            image = self._seen(torch.zeros(3, dtype=torch.uint8), 255).float() / 255.0
            return {"policy": image - image.mean(dim=(1, 2), keepdim=True)}
        image = self._seen(torch.full((1,), torch.inf), 2.0)
        image[image == torch.inf] = 0
        return {"policy": image}

    def _seen(self, background, column):
        """Return the image of a tiled camera: a column where the pole's tip is."""
        image = background.repeat(self.num_envs, 36, 36, 1)
        columns = ((self.state[:, 2] + 1) * 18).long().clamp(0, 35)
        image[torch.arange(self.num_envs), :, columns] = column
        return image


class CartpoleDiscreteEnv(DirectRLEnv):
    def _force(self, action):
        return action.float() - 1.0

    def _get_observations(self):
        return {"policy": self.state}
