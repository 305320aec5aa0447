"""A task of the stand-in for Isaac Lab, with the spaces that an options file needs."""

from __future__ import annotations

import types

import numpy as np
import torch
from gymnasium.spaces import Dict, Discrete, MultiDiscrete, Tuple
from isaaclab.envs import DirectRLEnv, DirectRLEnvCfg, SceneCfg
from isaaclab.utils import configclass


@configclass
class CorpusCfg(DirectRLEnvCfg):
    scene: SceneCfg = SceneCfg()
    groups: dict = {}
    """Spaces of observations by the name of their group."""


class CorpusEnv(DirectRLEnv):
    """The cart-pole, observed through any spaces, and pushed by the first value of any action."""

    def __init__(self, cfg, **settings):
        super().__init__(cfg, **settings)
        # Isaac Lab's symmetry functions look for heights here.
        terms = {name: [] for name in cfg.groups}
        self.observation_manager = types.SimpleNamespace(active_terms=terms)

    def _spaces(self):
        return self.cfg.groups

    def _get_observations(self):
        return {name: self._seen(space) for name, space in self.cfg.groups.items()}

    def _force(self, action):
        return action[:, 0].float()

    def _seen(self, space):
        """Return the state in the format of a space."""
        if isinstance(space, Dict):
            return {name: self._seen(part) for name, part in space.spaces.items()}
        if isinstance(space, Tuple):
            return tuple(self._seen(part) for part in space.spaces)
        signs = (self.state > 0).long()
        if isinstance(space, Discrete):
            return (signs * torch.tensor([8, 4, 2, 1])).sum(1)
        if isinstance(space, MultiDiscrete):
            return signs
        size = int(np.prod(space.shape))
        return self.state.repeat(1, -(-size // 4))[:, :size].reshape(-1, *space.shape)
