"""What the agents with a replay buffer need besides skrl's own: saved state, random actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from skrl.resources.noises.jax import Noise

__all__ = ["get_noise", "noises", "set_noise"]


def noises(agent: Any) -> dict[str, Any]:
    """Return an agent's noises by the names of its attributes."""
    return {name: part for name, part in vars(agent).items() if isinstance(part, Noise)}


def get_noise(agent: Any) -> dict[str, Any]:
    """Return what an agent's noises remember, on the host: Ornstein-Uhlenbeck's last values."""
    states = {name: getattr(noise, "state", None) for name, noise in noises(agent).items()}
    return {name: np.asarray(x) for name, x in states.items() if isinstance(x, jax.Array)}


def set_noise(agent: Any, states: Mapping[str, Any]) -> None:
    """Let an agent's noises go on from what `get_noise` returned."""
    for name, noise in noises(agent).items():
        if name in states:
            noise.state = jax.device_put(states[name], noise.device)
