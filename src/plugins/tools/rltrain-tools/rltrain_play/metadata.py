"""What a reader of an exported file must know to run it without rltrain."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rltrain import __version__
from rltrain.options import hide
from rltrain.policies import PolicySession
from rltrain.policy import PolicyModule
from rltrain.runs import Checkpoint, versions
from rltrain.types import ArrayInfo


def describe(session: PolicySession, module: PolicyModule) -> dict[str, Any]:
    """Return all that is known of a policy and its task, as JSON can hold it.

    Numbers have their full precision. A bound that is the same for all elements is one number; one
    that is infinite is null.
    """
    config = session.config
    assert session.checkpoint is not None, "the policy was loaded from it"
    checkpoint = Checkpoint(session.checkpoint, config.trust)
    spaces = session.env.single_observation_space
    groups = getattr(spaces, "spaces", None) or dict.fromkeys(module.inputs, spaces)
    inputs = {name: _array(info) | _space(groups[name]) for name, info in module.inputs.items()}
    outputs = {"actions": _array(module.output) | _space(session.env.single_action_space)}
    for name, info in module.states.items():
        inputs[f"state_in.{name}"] = outputs[f"state_out.{name}"] = _array(info)
    facts: dict[str, Any] = {
        "rltrain_version": __version__,
        "task": config.task,
        "suite": config.suite,
        "env": hide(dict(config.env)),
        "library": config.library,
        "algorithm": config.algorithm,
        "framework": config.framework,
        "checkpoint": {
            "name": checkpoint.path.name,
            "iteration": checkpoint.iteration,
            "sha256": checkpoint.digest,
        },
        "inputs": inputs,
        "outputs": outputs,
        "normalization": plain(module.normalization),
        "action_transform": plain(module.actions),
        "step_dt": getattr(session.env.unwrapped, "step_dt", None),
        "versions": dict(versions()),
    }
    of_suite = session.describe_task()
    return facts | ({config.suite: plain(of_suite)} if of_suite else {})


def as_text(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return what `describe` found, for a file that holds text by name: JSON if it is not text.

    Text of the suite is also there under its own names.
    """
    of_suite = facts.get(facts["suite"]) or {}
    found = {name: text for name, text in of_suite.items() if isinstance(text, str)}
    for name, value in facts.items():
        if value is not None:
            found[name] = value if isinstance(value, str) else json.dumps(value)
    return found


def _array(info: ArrayInfo) -> dict[str, Any]:
    return {"shape": list(info.shape), "dtype": info.dtype}


def _space(space: Any) -> dict[str, Any]:
    """Return the kind of a Gymnasium space, and its bounds or numbers of choices."""
    found: dict[str, Any] = {"space": type(space).__name__}
    for name in ("low", "high", "n", "nvec", "start"):
        if hasattr(space, name):
            value = getattr(space, name)
            is_uniform = name in ("low", "high") and value.size and (value == value.flat[0]).all()
            found[name] = plain(value.flat[0] if is_uniform else value)
    return found


def plain(value: Any) -> Any:
    """Return a value in the types of JSON, which has no infinite numbers."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):  # Of numpy.
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
