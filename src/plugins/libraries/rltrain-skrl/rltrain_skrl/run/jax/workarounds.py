"""Bugs of skrl's jax side that this plugin works around, for skrl 2.1.0 to 2.1.1.

`AveragedOptimizer` has one more: checkpoints without the optimizers' state.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from skrl.memories.jax import RandomMemory

from rltrain_skrl.run.agents import SessionAgent
from rltrain_skrl.run.jax.keys import KeyCounter, folded_key


class RandomActions(KeyCounter):
    """Random actions from this rank's key.

    skrl samples a copy of the action space: the copy ignores the seed, and it returns the same
    actions in every step.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        """Compile the sampling of one environment's action space.

        For a box, samples are uniform if it is bounded, and standard normal, clipped to it, if not.
        """
        super().__init__()
        self._sample = jax.jit(functools.partial(_sample, space), static_argnums=2)

    def __call__(self, rows: int) -> jax.Array:
        """Return actions of shape (rows, A)."""
        actions: jax.Array = self._sample(*self.next(), rows)
        return actions


def _sample(space: spaces.Space[Any], key: jax.Array, count: int, rows: int) -> jax.Array:
    key = jax.random.fold_in(key, count)
    if isinstance(space, spaces.Discrete):
        return jax.random.randint(key, (rows, 1), 0, int(space.n))
    assert isinstance(space, spaces.Box)
    low, high = (jnp.asarray(bound.ravel(), jnp.float32) for bound in (space.low, space.high))
    if space.is_bounded():
        return jax.random.uniform(key, (rows, low.size), minval=low, maxval=high)
    return jnp.clip(jax.random.normal(key, (rows, low.size)), low, high)


class SeededRandomActions:
    """Mixin of a model: random actions from `random_actions`."""

    random_actions: RandomActions
    """The agent sets it on the model that acts, and saves its key."""

    def random_act(
        self, inputs: Mapping[str, Any], *, role: str = "", params: Any = None
    ) -> tuple[jax.Array, dict[str, Any]]:
        """Return random actions of shape (N, A); see skrl."""
        return self.random_actions(len(inputs["observations"])), {}


class FreshNoise:
    """Mixin of a stochastic policy: every compiled update samples new noise.

    skrl folds a counter into the policy's key. jit traces the update once, so that key and counter
    become constants: the noise of the first update is used in all of them.
    """

    def act(self, inputs: dict[str, Any], *, role: str = "", params: Any = None) -> Any:
        """Return actions and outputs; see skrl, which passes parameters inside of updates only."""
        if params is None:
            return super().act(inputs, role=role)  # type: ignore[misc]
        with folded_key(self, inputs["observations"]):
            return super().act(inputs, role=role, params=params)  # type: ignore[misc]


class _ChoiceEntropy(FreshNoise):
    """Mixin of a policy over choices: its entropy is a number.

    skrl computes it from the standard deviation among a policy's outputs, which is NaN for choices:
    an entropy bonus has no effect. Here the entropy itself takes that place.
    """

    def act(self, inputs: dict[str, Any], *, role: str = "", params: Any = None) -> Any:
        """Return actions and outputs; see skrl."""
        actions, outputs = super().act(inputs, role=role, params=params)
        if params is not None:
            outputs["stddev"] = self._entropy(outputs["net_output"])
        return actions, outputs

    def get_entropy(self, entropy: jax.Array, *, role: str = "") -> jax.Array:
        """Return what `act` put in the place of the standard deviation."""
        return entropy

    def _entropy(self, output: jax.Array) -> jax.Array:
        raise NotImplementedError


class CategoricalEntropy(_ChoiceEntropy):
    """Mixin of a categorical policy."""

    _c_unnormalized_log_prob: bool

    def _entropy(self, output: jax.Array) -> jax.Array:
        return _entropy(output, self._c_unnormalized_log_prob)


class MultiCategoricalEntropy(_ChoiceEntropy):
    """Mixin of a policy over several choices."""

    _mc_unnormalized_log_prob: bool
    action_space: spaces.MultiDiscrete

    def _entropy(self, output: jax.Array) -> jax.Array:
        ends = [int(n) for n in self.action_space.nvec.cumsum()[:-1]]
        parts = jnp.split(output, ends, axis=-1)
        first, *others = (_entropy(part, self._mc_unnormalized_log_prob) for part in parts)
        return sum(others, start=first)


def _entropy(output: jax.Array, unnormalized: bool) -> jax.Array:
    """Return the entropies of choices by a network's output, shapes (N, C) to (N, 1)."""
    if unnormalized:
        log = jax.nn.log_softmax(output)
    else:
        probabilities = output / output.sum(-1, keepdims=True)
        eps = float(np.finfo(output.dtype).eps)
        log = jnp.log(probabilities.clip(min=eps, max=1 - eps))
    return -(jnp.exp(log) * log).sum(-1, keepdims=True)


class InPlaceMemory(RandomMemory):  # type: ignore[misc]
    """skrl's memory, which stores a step in place by one compiled call.

    skrl copies each of its tensors to change a row of it.
    """

    # skrl's, used by this class.
    tensors: dict[str, jax.Array]
    memory_size: int
    memory_index: int
    filled: bool

    def add_samples(self, **samples: jax.Array | None) -> None:
        """Store a step of every environment, tensors of shape (N, D); see skrl."""
        row = {name: x for name, x in samples.items() if x is not None and name in self.tensors}
        stored = {name: self.tensors[name] for name in row}
        self.tensors.update(_store(stored, row, self.memory_index))
        self.memory_index += 1
        if self.memory_index >= self.memory_size:
            self.memory_index, self.filled = 0, True


@functools.partial(jax.jit, donate_argnums=0)
def _store(
    tensors: dict[str, jax.Array], row: dict[str, jax.Array], index: int
) -> dict[str, jax.Array]:
    return {name: x.at[index].set(row[name].astype(x.dtype)) for name, x in tensors.items()}


class EnvironmentInfo(SessionAgent):
    """Mixin for an agent: tracks what environments log, as only skrl's torch trainer does."""

    def record_transition(self, *, timestep: int, timesteps: int, **transition: Any) -> None:
        """Store one step of every environment, and track its metrics; see skrl."""
        for name, value in transition["infos"].get(self.environment_info, {}).items():
            self.tracking_data[f"Info / {name}"].append(value)
        super().record_transition(timestep=timestep, timesteps=timesteps, **transition)


class EpsilonGreedy(SessionAgent):
    """Mixin for DQN or DDQN: exploration that does not recompile the network.

    skrl passes only the environments that do not explore through the network. Their number changes
    in every step, and jit compiles the network again for each new one.
    """

    # skrl's, used by this class.
    q_network: Any
    _observation_preprocessor: Callable[..., Any]
    _state_preprocessor: Callable[..., Any]

    def act(self, observations: Any, states: Any, *, timestep: int, timesteps: int) -> Any:
        """Choose actions, at random with the probability of the exploration schedule; see skrl."""
        counted = self._counted(timestep, timesteps)
        inputs = {
            "observations": self._observation_preprocessor(observations),
            "states": self._state_preprocessor(states),
        }
        random, outputs = self.q_network.random_act(inputs, role="q_network")
        schedule = self.cfg.exploration_scheduler
        if schedule is not None and counted["timestep"] < self.cfg.random_timesteps:
            return random, outputs
        values, outputs = self.q_network.act(inputs, role="q_network")
        epsilon = 0.0 if schedule is None else schedule(counted["timestep"], counted["timesteps"])
        if schedule is not None:
            self.tracking_data["Exploration / Exploration epsilon"].append(epsilon)
        greedy = np.random.random(len(values)) >= epsilon
        return _greedy_or_random(values, random, greedy), outputs


@jax.jit
def _greedy_or_random(values: jax.Array, random: jax.Array, greedy: jax.Array) -> jax.Array:
    best = jnp.argmax(values, axis=1, keepdims=True).astype(random.dtype)
    return jnp.where(greedy[:, None], best, random)
