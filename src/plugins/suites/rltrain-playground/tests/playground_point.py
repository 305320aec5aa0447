"""A user's task, registered with Playground: a point on a line. Fast: it needs no MuJoCo."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from ml_collections import config_dict
from mujoco_playground import State, dm_control_suite
from mujoco_playground._src import mjx_env


def default_config():
    return config_dict.create(
        ctrl_dt=0.1, sim_dt=0.1, episode_length=9, action_repeat=1, speed=1.0, limits={"end": 0.8}
    )


class Point(mjx_env.MjxEnv):
    """Keep the point away from the ends. It diverges, like a simulation, on too large actions."""

    xml_path = mj_model = mjx_model = None
    action_size = 1

    def __init__(self, config, config_overrides=None):
        super().__init__(config, config_overrides)

    def reset(self, rng):
        rng, drawn = jax.random.split(rng)
        x = jax.random.uniform(drawn) - 0.5
        # Python numbers, as in many tasks: arrays made from them have weak types.
        return State(x, self.observe(x), 0.0, 0.0, {"reward/x": 0.0}, {"rng": rng, "last": x})

    def step(self, state, action):
        x = state.data + 0.2 * self._config.speed * action[0]
        x = jnp.where(abs(action[0]) > 1.0, jnp.nan, x)
        done = jnp.isnan(x) | (abs(x) > self._config.limits.end)
        state.metrics["reward/x"] = x
        info = {**state.info, "last": state.data}
        return State(x, self.observe(x), 1 - abs(x), jnp.float32(done), state.metrics, info)

    def observe(self, x):
        return {"state": x[None], "privileged_state": jnp.stack([x, 2 * x]), "height": x[None]}


dm_control_suite.register_environment("Point", Point, default_config)
