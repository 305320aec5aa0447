"""Environments of several agents, and one agent made of them."""

from __future__ import annotations

import gymnasium as gym
import torch
from gymnasium.spaces import Dict, Tuple, flatten_space

from isaaclab.envs.rl_env import DirectRLEnv, space_of


class DirectMARLEnv(DirectRLEnv):
    """Spaces, observations, actions, rewards and ends are by agent. Each sees the state."""

    def __init__(self, cfg, render_mode=None, **kwargs):
        self.possible_agents = cfg.possible_agents
        self.observation_spaces = {k: space_of(v) for k, v in cfg.observation_spaces.items()}
        self.action_spaces = {k: space_of(v) for k, v in cfg.action_spaces.items()}
        super().__init__(cfg, render_mode)

    def _spaces(self):
        return {"policy": flatten_space(Tuple(list(self.observation_spaces.values())))}

    def _action_space(self):
        return flatten_space(Tuple(list(self.action_spaces.values())))

    def _force(self, action):
        return action.float().sum(1)

    def _get_observations(self):
        return {k: self.state[:, : v.shape[0]] for k, v in self.observation_spaces.items()}

    def step(self, actions):
        parts = [actions[agent] for agent in self.possible_agents]
        seen, reward, terminated, timed_out, _ = super().step(torch.cat(parts, 1))
        each = [dict.fromkeys(self.possible_agents, x) for x in (reward, terminated, timed_out)]
        return seen, *each, {agent: {} for agent in self.possible_agents}


def multi_agent_to_single_agent(env):
    class Env(gym.Env):
        def __init__(self):
            self.env, self.cfg, self.num_envs = env, env.cfg, env.num_envs
            self.step_dt, self.max_episode_length = env.step_dt, env.max_episode_length
            self.single_observation_space = Dict(env._spaces())
            self.single_action_space = env._action_space()

        def reset(self, seed=None, options=None):
            return self._joined(env.reset(seed=seed)[0]), {}

        def step(self, action):
            sizes = [space.shape[0] for space in env.action_spaces.values()]
            parts = dict(zip(env.possible_agents, action.split(sizes, 1), strict=True))
            seen, reward, terminated, timed_out, extras = env.step(parts)
            ended = [torch.stack(list(x.values())).all(0) for x in (terminated, timed_out)]
            return self._joined(seen), sum(reward.values()), *ended, extras

        def _joined(self, seen):
            return {"policy": torch.cat([seen[agent] for agent in env.possible_agents], 1)}

        def close(self):
            env.close()

    return Env()
