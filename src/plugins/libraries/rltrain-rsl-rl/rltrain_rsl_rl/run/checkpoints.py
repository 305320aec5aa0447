"""Checkpoints of rsl_rl 1 to 4, in the format of rsl_rl 5.

Up to version 3, one module held both models (`model_state_dict`), and up to version 2 what
normalizes observations was outside of it. Up to version 4, the noise belonged to the actor itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

_NOISE = {
    "std": "distribution.std_param",
    "log_std": "distribution.log_std_param",
}
_NORMALIZERS = (
    ("obs_norm_state_dict",),
    ("privileged_obs_norm_state_dict", "critic_obs_norm_state_dict"),
)
"""What normalizes each model's observations up to version 2; the last name is version 1's."""

_COUNT = 10**8
"""Rows that a normalizer has seen of which version 1 did not save the number: it would have stopped
to learn then."""


def upgrade_checkpoint(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint in the format of rsl_rl 5; one of rsl_rl 5 as it is.

    An older one has no optimizer afterwards: its parameters were in another order.
    """
    state = dict(saved)
    model = state.pop("model_state_dict", None)
    if isinstance(model, Mapping):
        state.pop("optimizer_state_dict", None)
        return state | _split(model, state)
    for role in ("actor", "student", "teacher"):
        part = state.get(f"{role}_state_dict")
        if isinstance(part, Mapping) and not _NOISE.keys().isdisjoint(part):
            state[f"{role}_state_dict"] = {_NOISE.get(key, key): x for key, x in part.items()}
            state.pop("optimizer_state_dict", None)
    return state


def _split(model: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models of one module apart."""
    distils = any(str(key).startswith("student.") for key in model)
    roles = ("student", "teacher") if distils else ("actor", "critic")
    parts: dict[str, dict[str, Any]] = {role: {} for role in roles}
    for key, value in model.items():
        if key in _NOISE:
            # A teacher acts without noise, but its model has the parameter.
            for role in roles if distils else roles[:1]:
                parts[role][_NOISE[key]] = value
        else:
            role, name = _renamed(key, roles)
            parts[role][name] = value
    for role, places in zip(roles, _NORMALIZERS, strict=True):
        for place in places:
            saved = state.get(place) or {}
            if saved and "count" not in saved:
                saved = {**saved, "count": torch.tensor(_COUNT)}
            parts[role] |= {f"obs_normalizer.{key}": value for key, value in saved.items()}
    return {f"{role}_state_dict": part for role, part in parts.items()}


def _renamed(key: str, roles: tuple[str, str]) -> tuple[str, str]:
    """Return of which model a parameter of one module is, and its name there."""
    memory = re.match(r"memory_(\w)\.", key)
    for role in roles:
        if memory and role.startswith(memory[1]):
            return role, f"rnn.{key[memory.end() :]}"
        for before, now in ((f"{role}.", "mlp."), (f"{role}_obs_normalizer.", "obs_normalizer.")):
            if key.startswith(before):
                return role, now + key.removeprefix(before)
    return roles[0], key
