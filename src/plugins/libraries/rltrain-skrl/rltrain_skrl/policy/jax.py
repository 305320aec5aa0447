"""Inference with skrl's trained agents for jax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import flax
import jax
import jax.numpy as jnp

from rltrain.session import Session
from rltrain.types import ArrayInfo
from rltrain_jax.devices import local_device
from rltrain_skrl.policy import actor, policy
from rltrain_skrl.run.checkpoints import read_pickled
from rltrain_skrl.run.jax.env import JaxConversion
from rltrain_skrl.run.jax.keys import set_keys
from rltrain_skrl.run.jax.runner import CheckedRunner
from rltrain_skrl.run.spaces import Space


class PolicyRunner(actor.PolicyRunner, CheckedRunner):
    """Builds an agent for jax that acts."""


class Actor(actor.Actor):
    """An agent for jax between a task's observations and actions.

    As in training, the conversions and the model are compiled separately.
    """

    framework = "jax"
    conversion_class = JaxConversion
    runner_class = PolicyRunner
    concatenate = staticmethod(jnp.concatenate)
    compiled = staticmethod(jax.jit)

    def device_of(self, name: str) -> jax.Device:
        """Return a device, such as "cpu"."""
        return local_device(name)

    def load(self, saved: Mapping[str, Any]) -> None:
        """Load the parts of a checkpoint, by name."""
        for name, part in self.parts.items():
            own = part.state_dict
            params = flax.serialization.from_bytes(own.params, saved[name])
            _check_shapes(name, params, own.params)
            part.state_dict = own.replace(params=jax.device_put(params, self.conversion.device))

    def output(self, observations: jax.Array, states: jax.Array | None) -> jax.Array:
        """Return the model's output."""
        inputs = self.inputs(observations, states)
        output: jax.Array
        output, _ = self.model.apply(self.model.state_dict.params, inputs, self.role)
        return output

    def __call__(self, *groups: jax.Array) -> tuple[jax.Array]:
        """Return the most likely actions."""
        with self.configured():
            return (self.act_on(groups),)


class Policy(policy.SkrlPolicy):
    """A trained agent for jax; see `SkrlPolicy`.

    It samples with the key of the session's stream `learner`, as a run does that begins.
    """

    actor_class = Actor

    def __init__(self, session: Session) -> None:
        """Build and load the agent; see `SkrlPolicy`."""
        super().__init__(session)
        with self._actor.configured() as skrl:
            skrl.config.jax.key = session.seeds.learner
            set_keys([self._actor.model], skrl.config.jax.key)

    def read(self, path: Path, trusted: bool) -> Mapping[str, Any]:
        """Return the parts of a checkpoint by name; only if it is trusted may it run code."""
        return read_pickled(path, trusted)

    def copy_of(self, actor: actor.Actor) -> Mapping[str, Any]:
        """Return what `Actor.load` takes to make another one equal."""
        parts = actor.parts.items()
        return {name: flax.serialization.to_bytes(part.state_dict.params) for name, part in parts}

    def function_of(self, actor: actor.Actor) -> Actor:
        """Return an actor as a function of its groups."""
        assert isinstance(actor, Actor)
        return actor

    def shape_of(self, function: Callable[..., Any], inputs: Mapping[str, ArrayInfo]) -> ArrayInfo:
        """Return what such a function returns for one environment."""
        given = [jax.ShapeDtypeStruct((1, *info.shape), info.dtype) for info in inputs.values()]
        (actions,) = jax.eval_shape(function, *given)
        return ArrayInfo(tuple(actions.shape[1:]), str(actions.dtype))

    def input_info(self, space: Space) -> ArrayInfo:
        """Return the shape and the dtype of a group's arrays; jax has no 64 bits by default."""
        info = super().input_info(space)
        return ArrayInfo(info.shape, str(jax.dtypes.canonicalize_dtype(info.dtype)))


def _check_shapes(name: str, loaded: Any, own: Any) -> None:
    """Check what flax does not: that the arrays of a checkpoint have an agent's shapes."""
    pairs = zip(*(jax.tree_util.tree_flatten_with_path(x)[0] for x in (loaded, own)), strict=True)
    for (path, given), (_, expected) in pairs:
        if given.shape != expected.shape:
            where = f"{name}{jax.tree_util.keystr(path)}"
            raise ValueError(f"{where} has the shape {given.shape}, and here {expected.shape}")
