"""The suite passes the conformance kit on Isaac Lab's own environments."""

from __future__ import annotations

import numpy as np

from rltrain_devkit import SuiteConformance


class OnIsaacLab(SuiteConformance):
    suite = "isaaclab"
    num_envs = 4

    def make(self, options, renders=False):
        """Make environments, and step them once.

        In 3.0.0 the limits of joint velocities are 0 until the first step, and tasks clamp the
        velocities of the first reset to them: only later ones repeat with a seed.
        """
        env = super().make(options, renders)
        env.reset()
        env.step(np.zeros(env.action_space.shape, np.float32))
        return env


class TestDirect(OnIsaacLab):
    task = "Isaac-Cartpole-Direct"
    env = {"episode_length_s": 0.5, "max_cart_pos": 1.2, "compute_final_obs": True}


class TestManagerBased(OnIsaacLab):
    task = "Isaac-Cartpole"
    env = {
        "episode_length_s": 0.5,
        "terminations": {"cart_out_of_bounds": {"params": {"bounds": [-1.2, 1.2]}}},
    }


del OnIsaacLab
