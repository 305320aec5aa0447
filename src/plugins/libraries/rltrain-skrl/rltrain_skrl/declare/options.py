"""The algorithms, their default options, and options that were written for skrl 1."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rltrain.options import load_yaml, overlaid
from rltrain.types import TaskInfo
from rltrain_adapters import MANY_ENVS

ON_POLICY = ("ppo", "rpo", "a2c")
"""The agents that learn from whole rollouts and discard them afterwards."""

OFF_POLICY = ("sac", "td3", "ddpg", "dqn", "ddqn")
"""The agents that learn from a replay buffer."""

ALGORITHMS = (*ON_POLICY, *OFF_POLICY)
"""The agents that are adapted."""

ACTS_IN = {
    **dict.fromkeys(("rpo", "sac", "td3", "ddpg"), "continuous"),
    **dict.fromkeys(("dqn", "ddqn"), "discrete"),
}
"""The agents that support one kind of action only."""

DETERMINISTIC = ("td3", "ddpg", "dqn", "ddqn")
"""The agents without a stochastic policy."""

ACTING_MODEL = {"dqn": "q_network", "ddqn": "q_network"}
"""The model that acts, where it is not `policy`."""

_SCHEDULES = ("scheduler", "scheduler._schedule", "policy_scheduler", "critic_scheduler")
_RATES = ("learning_rate", "policy_learning_rate", "value_learning_rate", "critic_learning_rate")
RESTORED = {
    "agent.learning_rate": (
        *("optimizer.lr", "policy_optimizer.lr", "critic_optimizer.lr", "entropy_optimizer.lr"),
        *(f"{name}.{rates}" for name in _SCHEDULES for rates in ("base_lrs", "_last_lr")),
        *_RATES,  # In jax.
    ),
    "agent.learning_rate_scheduler_kwargs.*": (
        *(f"{name}.*" for name in _SCHEDULES),
        *(f"{name}._*" for name in _SCHEDULES),
    ),
    "agent.initial_entropy_value": ("log_entropy_coefficient.data", "log_entropy"),
    "models.policy.initial_log_std": ("policy.log_std_parameter.data",),
}
"""Options that a checkpoint holds too, and where an agent has them; see `as_given`."""

_DEFAULTS = Path(__file__).parents[1] / "defaults"

_RPO_OUTPUT = "ACTIONS + inputs.get('alpha', 0.0) * (2.0 * torch.rand_like(ACTIONS) - 1.0)"
"""The output of RPO's policy in the default options: skrl leaves its noise to the model."""

_IN_JAX = {
    "tanh(ACTIONS) * torch.as_tensor(self.action_space.high, device=self.device) "
    ".nan_to_num(posinf=1.0)": (
        "tanh(ACTIONS) * jnp.nan_to_num(jnp.asarray(self.action_space.high), posinf=1.0)"
    ),
    _RPO_OUTPUT: (
        "ACTIONS + inputs.get('alpha', 0.0) * jax.random.uniform("
        "jax.random.fold_in(inputs.get('key', jax.random.PRNGKey(0)), 1), "
        "ACTIONS.shape, minval=-1.0, maxval=1.0)"
    ),
}
"""Outputs of models in the default options, which skrl evaluates as Python: the torch expression
and the jax one."""

RPO_OUTPUTS = (_RPO_OUTPUT, _IN_JAX[_RPO_OUTPUT])
"""RPO's output for torch and for jax."""

_BYTES = " / 255"
"""Scales bytes to numbers from 0 to 1 in the inputs of models in the default options."""

_CHANNELS_FIRST = re.compile(r"permute\((?P<images>\S+), \(0, 3, 1, 2\)\)")
"""Moves the channels of images first in the inputs of models for torch. flax's convolutions want
them last, which is how tasks give them."""


def default_agent(task: TaskInfo, algorithm: str) -> Mapping[str, Any]:
    """Return the default options of one of `ALGORITHMS`, in the format of skrl's Runner."""
    scale = "" if task.num_envs >= MANY_ENVS else "_few_envs"
    action = ACTS_IN.get(algorithm, task.action)
    files = [_DEFAULTS / f"{algorithm}_{kind}.yaml" for kind in (f"{action}{scale}", action)]
    options = _load(next(file for file in files if file.is_file()))
    if algorithm in ON_POLICY and task.has_images:
        options = overlaid(options, _load(_DEFAULTS / "images.yaml"))
        for model in ("policy", "value"):
            options["models"][model]["network"] = _with_encoders(
                options["models"][model]["network"], task
            )
    return options


def _load(file: Path) -> dict[str, Any]:
    return load_yaml(str(file), "the default options")


def _with_encoders(network: list[dict[str, Any]], task: TaskInfo) -> list[dict[str, Any]]:
    """Return a network with one encoder for each image that the task observes.

    Args:
        network: the one for a single image of bytes: convolutions, then one dense layer.
        task: its group `policy` is an image or a vector.
    """
    (encoder,) = network
    images = task.images
    inputs = []
    for image in images:
        has_bytes = (task.observations or {})[image].dtype == "uint8"
        inputs.append(encoder["input"] if has_bytes else encoder["input"].removesuffix(_BYTES))
    if images == ("policy",):
        return [{**encoder, "input": inputs[0]}]
    *convolutions, dense = encoder["layers"]
    parts, joined = [], []
    for index, group in enumerate(images):
        source = inputs[index].replace("OBSERVATIONS", f'OBSERVATIONS["{group}"]')
        joined.append(f"image_{index}")
        parts.append({**encoder, "name": joined[-1], "input": source, "layers": convolutions})
    if "policy" not in images:
        joined.append('OBSERVATIONS["policy"]')
    join = {"input": f"concatenate([{', '.join(joined)}])", "layers": [dense]}
    return [*parts, {**encoder, **join}]


def in_jax(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options with their torch expressions translated to jax."""
    agent = copy.deepcopy(dict(options))
    for model in agent["models"].values():
        if isinstance(model, dict):
            model["output"] = _IN_JAX.get(model["output"], model["output"])
            for part in model["network"]:
                part["input"] = _CHANNELS_FIRST.sub(r"\g<images>", part["input"])
    return agent


def networks(models: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the networks of the section `models`, each with its model's role."""
    for role, model in models.items():
        for network in (model.get("network") or []) if isinstance(model, Mapping) else []:
            if isinstance(network, dict):
                yield role, network


def rename_states(options: dict[str, Any], has_states: bool) -> None:
    """Replace STATES by OBSERVATIONS in the networks of a file for skrl 1.

    skrl 1 called the observations STATES, which are something else in skrl 2. skrl's Runner
    translates the agent's options of skrl 1, but not the networks. A file for skrl 1 has no network
    with the input OBSERVATIONS, and either has agent options of skrl 1 or is for a task without
    states.

    Args:
        options: of skrl's Runner, changed in place.
        has_states: whether the task has observations for the critic alone.
    """
    of_skrl_1 = any(x in options["agent"] for x in ("lambda", "clip_predicted_values"))
    found = [network for _, network in networks(options.get("models") or {})]
    inputs = [str(network.get("input")) for network in found]
    if (has_states and not of_skrl_1) or re.search(r"\bOBSERVATIONS\b", " ".join(inputs)):
        return
    for network, text in zip(found, inputs, strict=True):
        if "STATES" in text:
            network["input"] = re.sub(r"\bSTATES\b", "OBSERVATIONS", text)
