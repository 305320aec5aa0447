"""Checkpoints of rsl_rl 1 to 4, in the format of rsl_rl 5.

Up to version 3, one module held both models (`model_state_dict`), and up to version 2 what
normalizes observations lay beside it. Up to version 4, the noise belonged to the actor itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

_ROLES = {
    "actor": ("actor", "critic"),
    "student": ("student", "teacher"),
}
"""The models that one module held, by the first one's name."""

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

_NAMES = "names of the optimizer's parameters"


def upgrade_checkpoint(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint in the format of rsl_rl 5; one of rsl_rl 5 as it is.

    The state of an older optimizer still has its own order: see `ordered`.
    """
    state = dict(saved)
    model = state.pop("model_state_dict", None)
    if isinstance(model, Mapping):
        return state | _split(model, state)
    for role in ("actor", "student", "teacher"):
        part = state.get(f"{role}_state_dict")
        if isinstance(part, Mapping) and not _NOISE.keys().isdisjoint(part):
            state[f"{role}_state_dict"] = {_NOISE.get(key, key): x for key, x in part.items()}
            models = _ROLES.get(role, ())
            names = [
                f"{each}.{key}" for each in models for key in state.get(f"{each}_state_dict", {})
            ]
            state.setdefault(_NAMES, names)
    return state


def ordered(state: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a checkpoint with the state of its optimizer in another order.

    Args:
        state: what `upgrade_checkpoint` returned.
        names: those of the parameters, "actor.mlp.0.weight", in the order of today's optimizer.
    """
    before = [name for name in state.pop(_NAMES, ()) if "normalizer" not in name]
    if not before:
        return state
    optimizer, names = state["optimizer_state_dict"], list(names)
    known = {
        names.index(name): optimizer["state"][index]
        for index, name in enumerate(before)
        if name in names and index in optimizer["state"]
    }
    (group,) = optimizer["param_groups"]
    state["optimizer_state_dict"] = {
        "state": known,
        "param_groups": [{**group, "params": list(range(len(names)))}],
    }
    return state


def _split(model: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models of one module apart, with the names of its parameters in their order."""
    first = "student" if any(str(key).startswith("student.") for key in model) else "actor"
    roles = _ROLES[first]
    parts: dict[str, dict[str, Any]] = {role: {} for role in roles}
    names = []
    for key, value in model.items():
        if key in _NOISE:
            # A teacher acts without noise, but its model has the parameter.
            for role in roles if first == "student" else (first,):
                parts[role][_NOISE[key]] = value
            names.append(f"{first}.{_NOISE[key]}")
            continue
        role, name = _renamed(key, roles)
        parts[role][name] = value
        names.append(f"{role}.{name}")
    for role, places in zip(roles, _NORMALIZERS, strict=True):
        for place in places:
            saved = state.get(place) or {}
            if saved and "count" not in saved:
                saved = {**saved, "count": torch.tensor(_COUNT)}
            parts[role] |= {f"obs_normalizer.{key}": value for key, value in saved.items()}
    return {f"{role}_state_dict": part for role, part in parts.items()} | {_NAMES: names}


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
