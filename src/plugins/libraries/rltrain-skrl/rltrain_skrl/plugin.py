"""What this plugin provides. It must not import skrl, which can start a process group."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.options import load_yaml, overlaid
from rltrain.specs import LibrarySpec, Spec
from rltrain.types import TaskInfo
from rltrain_adapters import MANY_ENVS
from rltrain_skrl.expressions import only_computes
from rltrain_skrl.iterations import ON_POLICY, RESTORED, iteration
from rltrain_skrl.keys import keys, unread
from rltrain_skrl.refusals import ACTS_IN, ALGORITHMS, REFUSES
from rltrain_skrl.words import words

_DEFAULTS = Path(__file__).parent / "defaults"

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
"""It, for torch and for jax."""

_BYTES = " / 255"
"""Scales bytes to numbers from 0 to 1 in the inputs of models in the default options."""

_CHANNELS_FIRST = re.compile(r"permute\((?P<images>\S+), \(0, 3, 1, 2\)\)")
"""Moves the channels of images first in the inputs of models for torch. flax's convolutions want
them last, which is how tasks give them."""


def default_agent(task: TaskInfo, algorithm: str) -> Mapping[str, Any]:
    """Return the default options in the format of skrl's Runner.

    Args:
        task: what is known about the task.
        algorithm: one of `ALGORITHMS`.
    """
    scale = "" if task.num_envs >= MANY_ENVS else "_few_envs"
    action = ACTS_IN.get(algorithm, task.action)
    kinds = (f"{action}{scale}", action)
    files = [_DEFAULTS / f"{algorithm}_{kind}.yaml" for kind in kinds]
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
    inputs = [encoder["input"].removesuffix("" if _has_bytes(task, x) else _BYTES) for x in images]
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


def _has_bytes(task: TaskInfo, group: str) -> bool:
    return (task.observations or {})[group].dtype == "uint8"


def in_jax(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options with their torch expressions translated to jax."""
    agent = copy.deepcopy(dict(options))
    for model in agent["models"].values():
        if isinstance(model, dict):
            model["output"] = _IN_JAX.get(model["output"], model["output"])
            for part in model["network"]:
                part["input"] = _CHANNELS_FIRST.sub(r"\g<images>", part["input"])
    return agent


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library skrl."""
    return [
        LibrarySpec(
            name="skrl",
            factory="rltrain_skrl.adapter:SkrlLibrary",
            summary="skrl's agents, with the options of its Runner",
            frameworks=("torch", "jax"),
            algorithms=ALGORITHMS,
            default_agent=default_agent,
            convert_defaults={"jax": in_jax},
            required_keys=("models", "agent.class", "trainer"),
            same_kinds=True,
            keys=keys,
            words=words,
            unread=unread,
            harmless=only_computes,
            run_keys={"seed": "seed"},
            restored=RESTORED,
            refuses=REFUSES,
            iteration=iteration,
            read_checkpoint="rltrain_skrl.checkpoints:parts",
            checkpoint_keys=frozenset({"an agent of skrl"}),
            # For torch: ranks of jax are not forked.
            preload=dict.fromkeys(("cpu", "cuda"), "rltrain_skrl.torch.runner"),
        )
    ]
