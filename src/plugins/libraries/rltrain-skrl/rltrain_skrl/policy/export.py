"""What an exported policy's file says of normalization and of the bounds of actions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from rltrain_skrl.policy.actor import Actor
from rltrain_skrl.run.spaces import Space


def normalization(actor: Actor) -> dict[str, dict[str, Any]]:
    """Return what skrl's scalers do to each group: the mean, what they divide by, and the clip."""
    seen = actor.conversion.observation_space
    joined = seen.spaces if isinstance(seen, spaces.Dict) else {"policy": seen}
    scaled = {"observation_preprocessor": joined}
    if actor.conversion.state_space is not None:
        scaled["state_preprocessor"] = {"critic": actor.conversion.state_space}
    result = {}
    for part, groups in scaled.items():
        scaler = actor.parts.get(part)
        if scaler is None:
            continue
        mean, variance = (
            np.asarray(x, np.float32) for x in (scaler.running_mean, scaler.running_variance)
        )
        arrays = {"mean": mean, "std": np.sqrt(variance) + np.float32(scaler.epsilon)}
        start = 0
        for name in sorted(groups):  # The order in which skrl flattens them.
            shape = groups[name].shape or (1,)
            end = start + math.prod(shape)
            values = {key: x[start:end].reshape(shape).tolist() for key, x in arrays.items()}
            result[name] = {**values, "clip": float(scaler.clip_threshold)}
            start = end
    return result


def bounds(space: Space) -> dict[str, Any]:
    """Return the bounds to which continuous actions are clipped, if there are any."""
    if not isinstance(space, spaces.Box):
        return {}
    limits = {"low": space.low, "high": space.high}
    return {name: limit.tolist() for name, limit in limits.items() if np.isfinite(limit).any()}
