"""Makes one Playground environment with its model on this rank's device.

This file is the only one that uses Playground's internals. It is needed because MJX (3.17, with
Playground 0.2) puts the model on the first device of all ranks, which only rank 0 can use.
"""

from __future__ import annotations

from typing import Any

import jax
from mujoco import mjx
from mujoco_playground import registry


def load(task: str, config: Any, device: jax.Device) -> Any:
    """Make an environment.

    Args:
        task: "Name", or "module:Name".
        config: the configuration of the task.
        device: the device for the model.
    """
    with jax.default_device(device):
        env = registry.load(task.rpartition(":")[2], config=config)
        if any(leaf.devices() != {device} for leaf in jax.tree.leaves(_model(env))):
            # Playground's own wrapper for domain randomization sets the model in the same way.
            env._mjx_model = mjx.put_model(env.mj_model, device=device, impl=env.mjx_model.impl)
    return env


def _model(env: Any) -> list[Any]:
    """Return the arrays of an environment's model; without MuJoCo physics there are none."""
    return [leaf for leaf in jax.tree.leaves(env.mjx_model) if isinstance(leaf, jax.Array)]
