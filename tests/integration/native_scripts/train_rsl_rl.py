"""Trains Pendulum-v1 with rsl_rl alone, as a user's own script does. Arguments: a folder."""

import os
import sys
from pathlib import Path

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # There may be no git.

import gymnasium
import torch
import yaml
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

AGENT = {
    "class_name": "OnPolicyRunner",
    "num_steps_per_env": 8,
    "save_interval": 1,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {
        "class_name": "MLPModel",
        "hidden_dims": [16],
        "activation": "elu",
        "obs_normalization": True,
        "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0},
    },
    "critic": {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"},
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2},
}


class Pendulums(VecEnv):
    """Gymnasium's environments with rsl_rl's interface."""

    def __init__(self):
        self.env = gymnasium.make_vec("Pendulum-v1", num_envs=4)
        self.num_envs, self.num_actions, self.device, self.cfg = 4, 1, "cpu", {}
        self.max_episode_length = 200
        self.episode_length_buf = torch.zeros(4, dtype=torch.long)
        self.observations = self.groups(self.env.reset(seed=1)[0])

    def groups(self, observations):
        return TensorDict({"policy": torch.from_numpy(observations)}, batch_size=[4])

    def get_observations(self):
        return self.observations

    def step(self, actions):
        seen, rewards, ended, cut, _ = self.env.step(2 * actions.clamp(-1, 1).numpy())
        self.observations = self.groups(seen)
        dones, cut = torch.from_numpy(ended | cut).long(), torch.from_numpy(cut)
        rewards = torch.from_numpy(rewards).float()
        return self.observations, rewards, dones, {"time_outs": cut}


folder = Path(sys.argv[1])
(folder / "params").mkdir(parents=True)
(folder / "params" / "agent.yaml").write_text(yaml.safe_dump(AGENT))
torch.manual_seed(1)
OnPolicyRunner(Pendulums(), AGENT, log_dir=str(folder), device="cpu").learn(3)
