"""Environments of a cart-pole, of one agent or several. Every step writes to their buffers."""

from __future__ import annotations

import math
import random

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple, flatten_space
from gymnasium.vector.utils import batch_space

from isaaclab.app import RUNNING


def space_of(spec):
    if isinstance(spec, Space):
        return spec
    if isinstance(spec, int):
        return Box(-np.inf, np.inf, (spec,))
    if isinstance(spec, set):
        return Discrete(len(spec) if len(spec) > 1 else next(iter(spec)))
    if isinstance(spec, list) and isinstance(spec[0], set):
        return MultiDiscrete([next(iter(part)) for part in spec])
    return Box(-np.inf, np.inf, tuple(spec))


def configure_seed(seed):
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)


class _RLEnv(gymnasium.Env):
    metadata = {"render_modes": [None, "human", "rgb_array"]}

    def __init__(self, cfg, render_mode=None, **kwargs):
        if hasattr(cfg, "tiled_camera") and not RUNNING["enable_cameras"]:
            raise RuntimeError(
                "A camera was spawned without the --enable_cameras flag. Please use "
                "--enable_cameras to enable rendering."
            )
        self.cfg, self.render_mode = cfg, render_mode
        if cfg.seed is not None:
            configure_seed(cfg.seed)
        self.num_envs, self.device = cfg.scene.num_envs, cfg.sim.device
        self.step_dt = cfg.sim.dt * cfg.decimation
        self.extras = {}
        n = self.num_envs
        self.episode_length_buf = torch.zeros(n, dtype=torch.long, device=self.device)
        self.reset_terminated = torch.zeros(n, dtype=torch.bool, device=self.device)
        self.reset_time_outs = torch.zeros_like(self.reset_terminated)
        self.reward_buf = torch.zeros(n, device=self.device)
        self.state = torch.zeros(n, 4, device=self.device)
        self.closed = False
        self.single_observation_space = Dict(self._spaces())
        self.single_action_space = self._action_space()
        self.observation_space = batch_space(self.single_observation_space["policy"], n)
        self.action_space = batch_space(self.single_action_space, n)

    @property
    def max_episode_length(self):
        return math.ceil(self.cfg.episode_length_s / (self.cfg.sim.dt * self.cfg.decimation))

    def reset(self, seed=None, options=None):
        if seed is not None:
            configure_seed(seed)
        self._reset_idx(torch.arange(self.num_envs))
        return self._get_observations(), self.extras

    def step(self, action):
        assert action.shape == (self.num_envs, *(self.single_action_space.shape or (1,)))
        force = self._force(action.to(self.device)).reshape(self.num_envs).clamp(-1.0, 1.0)
        x, v, angle, rate = self.state.unbind(1)
        spin = 9.8 * torch.sin(angle) - 10.0 * force * torch.cos(angle)
        self.state = torch.stack(
            (x + self.step_dt * v, v + self.step_dt * 10.0 * force,
             angle + self.step_dt * rate, rate + self.step_dt * spin), 1
        )  # fmt: skip
        self.episode_length_buf += 1
        self.reset_terminated[:] = (self.state[:, 0].abs() > 2) | (self.state[:, 2].abs() > 0.5)
        self.reset_time_outs[:] = self.episode_length_buf >= self.max_episode_length
        self.reward_buf[:] = 1.0 - self.state[:, 2] ** 2 - 2.0 * self.reset_terminated.float()
        done = (self.reset_terminated | self.reset_time_outs).nonzero().squeeze(-1)
        if len(done):
            self._reset_idx(done)
        outcome = self.reward_buf, self.reset_terminated, self.reset_time_outs, self.extras
        return self._get_observations(), *outcome

    def render(self, recompute=False):
        """Return what the viewer's camera sees: a bright column where the first cart is."""
        if self.render_mode != "rgb_array":
            return None
        if not RUNNING["enable_cameras"]:
            raise RuntimeError("Cannot render 'rgb_array' when enable_cameras was not given.")
        image = np.zeros((72, 128, 3), dtype=np.uint8)
        image[:, int(np.clip(64 + 30 * self.state[0, 0].item(), 0, 127))] = 255
        return image

    def close(self):
        assert not self.closed, "closed twice"
        self.closed = True

    def _reset_idx(self, ids):
        lengths = self.episode_length_buf[ids].float().mean()
        self.extras["log"] = {"Episode/length": lengths, "Curriculum/level": 1.0}
        self.state[ids] = 0.1 * (2 * torch.rand(len(ids), 4, device=self.device) - 1)
        self.episode_length_buf[ids] = 0

    def _force(self, action):
        return action.float()


class ManagerBasedRLEnv(_RLEnv):
    def _spaces(self):
        return {name: Box(-np.inf, np.inf, (size,)) for name, size in self._groups().items()}

    def _groups(self):
        return {name: group.size for name, group in vars(self.cfg.observations).items()}

    def _action_space(self):
        return Box(-np.inf, np.inf, (1,))

    def _force(self, action):
        return action * self.cfg.actions.joint_effort.scale

    def _get_observations(self):
        return {name: self.state[:, :size] for name, size in self._groups().items()}


class DirectRLEnv(_RLEnv):
    def _spaces(self):
        spaces = {"policy": space_of(self.cfg.observation_space)}
        if self.cfg.state_space:
            spaces["critic"] = space_of(self.cfg.state_space)
        return spaces

    def _action_space(self):
        return space_of(self.cfg.action_space)


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
    class Env(gymnasium.Env):
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
