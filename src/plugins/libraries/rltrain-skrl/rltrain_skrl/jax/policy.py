"""skrl's trained agents for jax as they act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import flax
import jax
import jax.numpy as jnp
from gymnasium import spaces
from skrl import config

from rltrain.session import Session
from rltrain.types import ArrayInfo
from rltrain_jax.devices import local_device
from rltrain_skrl import actor, components, policy
from rltrain_skrl.checkpoints import read_pickled
from rltrain_skrl.jax.conversion import JaxConversion
from rltrain_skrl.jax.keys import set_keys
from rltrain_skrl.jax.runner import CheckedRunner


class PolicyRunner(components.PolicyRunner, CheckedRunner):
    """Builds an agent for jax that acts."""


class Actor(actor.Actor):
    """An agent for jax between a task's observations and actions.

    As in training, the conversions and the model are compiled separately.
    """

    framework = "jax"
    conversion_class = JaxConversion
    runner_class = PolicyRunner

    def __init__(self, *arguments: Any) -> None:
        """Build the agent; see `rltrain_skrl.actor.Actor`."""
        super().__init__(*arguments)
        self._flat = jax.jit(self._as_flat)
        self._native = jax.jit(self.conversion.native)

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

    def flat(self, observations: Any) -> tuple[jax.Array, jax.Array | None]:
        """Return skrl's observations and states."""
        flat: tuple[jax.Array, jax.Array | None] = self._flat(observations)
        return flat

    def _as_flat(self, observations: Any) -> tuple[jax.Array, jax.Array | None]:
        states = self.conversion.flat_states(observations) if self.reads_states else None
        return self.conversion.flat_observations(observations), states

    def likeliest(self, observations: jax.Array, states: jax.Array | None) -> jax.Array:
        """Return the most likely actions, shape (N, A)."""
        inputs = self.inputs(observations, states)
        output: jax.Array
        output, _ = self.model.apply(self.model.state_dict.params, inputs, self.role)
        space = self.conversion.action_space
        if isinstance(space, spaces.Discrete):
            return jnp.argmax(output, axis=1, keepdims=True)
        if isinstance(space, spaces.MultiDiscrete):
            choices = jnp.split(output, space.nvec.cumsum()[:-1].tolist(), axis=-1)
            return jnp.stack([jnp.argmax(choice, axis=-1) for choice in choices], axis=-1)
        return output

    def native(self, actions: jax.Array) -> jax.Array:
        """Return actions as the task's environments take them."""
        taken: jax.Array = self._native(actions)
        return taken

    def __call__(self, *groups: jax.Array) -> tuple[jax.Array]:
        """Return the most likely actions."""
        named = dict(zip(self.groups, groups, strict=True))
        observations = named if self.conversion.grouped else named["policy"]
        with self.configured():
            return (self.native(self.likeliest(*self.flat(observations))),)


class JaxPolicy(policy.SkrlPolicy):
    """A trained agent for jax; see `rltrain_skrl.policy.SkrlPolicy`.

    It draws with the key of the session's stream `learner`, as a run does that begins.
    """

    actor_class = Actor

    def __init__(self, session: Session) -> None:
        """Build and load the agent; see `rltrain_skrl.policy.SkrlPolicy`."""
        super().__init__(session)
        with self._actor.configured():
            config.jax.key = session.seeds.learner
            set_keys([self._actor.model], config.jax.key)

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

    def input_info(self, space: spaces.Space[Any]) -> ArrayInfo:
        """Return the shape and the dtype of a group's arrays; jax has no 64 bits by default."""
        info = super().input_info(space)
        return ArrayInfo(info.shape, str(jax.dtypes.canonicalize_dtype(info.dtype)))


def load_policy(session: Session) -> JaxPolicy:
    """Load the policy of a session's checkpoint; see the hook `rltrain_load_policy`."""
    return JaxPolicy(session)


def _check_shapes(name: str, loaded: Any, own: Any) -> None:
    """Check what flax does not: that the arrays of a checkpoint have an agent's shapes."""
    pairs = zip(*(jax.tree_util.tree_flatten_with_path(x)[0] for x in (loaded, own)), strict=True)
    for (path, given), (_, expected) in pairs:
        if given.shape != expected.shape:
            where = f"{name}{jax.tree_util.keystr(path)}"
            raise ValueError(f"{where} has the shape {given.shape}, and here {expected.shape}")
