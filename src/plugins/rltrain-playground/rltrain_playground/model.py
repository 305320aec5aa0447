"""One environment of Playground's, with its model on this rank's device: the seam to its insides.

MJX puts a model on the first device of all ranks, which only rank 0 has.
"""

from __future__ import annotations

from typing import Any

import jax
from mujoco import mjx
from mujoco_playground import registry

__all__ = ["load"]


def load(task: str, config: Any, device: jax.Device) -> Any:
    """Make an environment.

    Args:
        task: its name, perhaps behind that of a module, "module:Name".
        config: its configuration.
        device: where its model shall be.
    """
    with jax.default_device(device):
        env = registry.load(task.rpartition(":")[2], config=config)
        if any(leaf.devices() != {device} for leaf in jax.tree.leaves(_model(env))):
            # As Playground's own wrapper for randomised models sets it.
            env._mjx_model = mjx.put_model(env.mj_model, device=device, impl=env.mjx_model.impl)
    return env


def _model(env: Any) -> list[Any]:
    """Return the arrays of an environment's model; one without physics of MuJoCo has none."""
    return [leaf for leaf in jax.tree.leaves(env.mjx_model) if isinstance(leaf, jax.Array)]
