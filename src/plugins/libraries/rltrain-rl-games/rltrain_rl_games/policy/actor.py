"""rl_games' models as its agents act with them: without agents, optimizers and buffers.

Agents of rl_games build a model, convert observations for it, and convert its actions for the
environment. So does each class here, by the same calls; tests compare them bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from gymnasium import spaces
from rl_games.algos_torch.model_builder import ModelBuilder
from rl_games.common.a2c_common import rescale_actions

from rltrain.errors import UsageError
from rltrain_rl_games.run.networks import add_groups_normalizer, normalizes_groups
from rltrain_rl_games.run.spaces import Conversion
from rltrain_rl_games.run.upstream import TANH_MODEL

States = tuple[torch.Tensor, ...]
"""Recurrent states, shape (layers, B, units) each; () without."""


class Actor(torch.nn.Module):
    """From the suite's observations to its actions, with the model of rl_games' agent.

    `low` and `high` are the bounds onto which continuous actions are mapped from [-1, 1], if they
    are. `squashes` says whether the most likely action is a hyperbolic tangent.
    """

    ACTIONS: ClassVar[tuple[type, ...]]
    """The action spaces that it can act in."""
    KEYS: ClassVar[frozenset[str]]
    """Keys of its algorithm's checkpoints."""

    low: torch.Tensor | None
    high: torch.Tensor | None
    squashes = False

    def __init__(self, params: Mapping[str, Any], conversion: Conversion) -> None:
        super().__init__()
        self.conversion = conversion
        self.model = self._build(params)
        is_scaled = self._is_scaled(params)
        for name in ("low", "high"):
            bounds = getattr(conversion.action_space(), name) if is_scaled else None
            tensor = None if bounds is None else torch.tensor(bounds, dtype=torch.float32)
            self.register_buffer(name, tensor, persistent=False)

    def forward(
        self, observations: Any, states: States, deterministic: bool = True
    ) -> tuple[torch.Tensor, States]:
        """Choose the suite's actions, shape (B, ...), and return the new states too.

        Args:
            observations: the suite's, a mapping if it has groups.
            states: the recurrent states.
            deterministic: whether to take the most likely action, or to sample as in training.
        """
        observed = self.observed(self.conversion.observations(observations, "obs"))
        choose = self._most_likely if deterministic else self._sampled
        output, states = choose(observed, states)
        return self.conversion.actions(self._scaled(output)), states

    def initial_states(self, num_envs: int) -> States:
        """Return the recurrent states at the beginning of an episode, () without."""
        if not self.model.is_rnn():
            return ()
        device = next(self.model.parameters()).device
        return tuple(
            torch.zeros(state.shape[0], num_envs, state.shape[2], device=device)
            for state in self.model.get_default_rnn_state()
        )

    def observed(self, observations: Any) -> Any:
        """Return what the model reads for converted observations."""
        raise NotImplementedError

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load a checkpoint of its algorithm."""
        # In old versions of rl_games it is outside the model; that of SAC still is.
        if self.model.normalize_input and "running_mean_std" in weights:
            self.model.running_mean_std.load_state_dict(weights["running_mean_std"])

    def _build(self, params: Mapping[str, Any]) -> Any:
        """Return rl_games' model."""
        raise NotImplementedError

    def _is_scaled(self, params: Mapping[str, Any]) -> bool:
        """Return whether actions are mapped from [-1, 1] onto the task's bounds."""
        return False

    def _most_likely(self, observed: Any, states: States) -> tuple[torch.Tensor, States]:
        """Return the most likely of the model's actions, and the new states."""
        raise NotImplementedError

    def _sampled(self, observed: Any, states: States) -> tuple[torch.Tensor, States]:
        """Return actions of the model sampled as in training, and the new states."""
        raise NotImplementedError

    def _scaled(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the agent's actions for those of the model."""
        return actions


class _PpoActor(Actor):
    KEYS = frozenset({"model"})

    def observed(self, observations: Any) -> Any:
        if isinstance(observations, dict):
            return {name: _as_floats(part) for name, part in observations.items()}
        return _as_floats(observations)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        self.model.load_state_dict(weights["model"])
        super().load_weights(weights)

    def _build(self, params: Mapping[str, Any]) -> Any:
        config, space = params["config"], self.conversion.space("obs")
        shapes: Any = space.shape
        if isinstance(space, spaces.Dict):
            shapes = {name: part.shape for name, part in space.items()}
        groups = normalizes_groups(params)
        model = ModelBuilder().load(params)
        built = model.build(
            {
                "actions_num": _actions_num(self.conversion.action_space()),
                "input_shape": shapes,
                "value_size": 1,
                "normalize_value": config.get("normalize_value", False),
                "normalize_input": config["normalize_input"] and not groups,
            }
        )
        if groups:
            add_groups_normalizer(built, shapes)
        return built

    def _most_likely(self, observed: Any, states: States) -> tuple[torch.Tensor, States]:
        # Called as a whole, the model samples: it would move the generator, and cannot be exported.
        inputs = {"obs": self.model.norm_obs(observed), "rnn_states": states or None}
        output, *_, new_states = self.model.a2c_network(inputs)
        return self._mode(output), new_states or ()

    def _sampled(self, observed: Any, states: States) -> tuple[torch.Tensor, States]:
        inputs = {"is_train": False, "obs": observed, "rnn_states": states or None}
        result = self.model(inputs)
        return result["actions"], result["rnn_states"] or ()

    def _mode(self, output: Any) -> torch.Tensor:
        """Return the most likely actions for the network's output."""
        raise NotImplementedError


class _ContinuousActor(_PpoActor):
    """Acts as `A2CAgent`."""

    ACTIONS = (spaces.Box,)

    def __init__(self, params: Mapping[str, Any], conversion: Conversion) -> None:
        super().__init__(params, conversion)
        self.squashes = params["model"]["name"] == TANH_MODEL

    def _is_scaled(self, params: Mapping[str, Any]) -> bool:
        return bool(params["config"].get("clip_actions", True))

    def _mode(self, output: torch.Tensor) -> torch.Tensor:
        return torch.tanh(output) if self.squashes else output

    def _scaled(self, actions: torch.Tensor) -> torch.Tensor:
        if self.low is None:
            return actions
        clamped = torch.clamp(actions, -1.0, 1.0)
        return rescale_actions(self.low, self.high, clamped)  # type: ignore[no-any-return]


class _DiscreteActor(_PpoActor):
    """Acts as `DiscreteA2CAgent`, with one choice or several."""

    ACTIONS = (spaces.Discrete, spaces.Tuple)

    def _mode(self, output: Any) -> torch.Tensor:
        if isinstance(output, list):
            return torch.stack([_choice(logits) for logits in output], -1)
        return _choice(output)


class _SacActor(Actor):
    """Acts as `SACAgent` after its warm-up, in which the agent does not ask its model.

    `SACPlayer` of `algos_torch/players.py` does not map actions onto the task's bounds; this does.
    """

    ACTIONS = (spaces.Box,)
    KEYS = frozenset({"actor", "critic", "critic_target"})

    squashes = True

    def observed(self, observations: torch.Tensor) -> torch.Tensor:
        return observations.float()

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        # The critics do not act.
        self.model.sac_network.actor.load_state_dict(weights["actor"])
        super().load_weights(weights)

    def _build(self, params: Mapping[str, Any]) -> Any:
        shape = self.conversion.space("obs").shape or ()
        actions_num = _actions_num(self.conversion.action_space())
        arguments = {
            "obs_dim": shape[0],
            "action_dim": actions_num,
            "actions_num": actions_num,
            "input_shape": shape,
            "normalize_input": params["config"].get("normalize_input", False),
        }
        return ModelBuilder().load(params).build(arguments)

    def _is_scaled(self, params: Mapping[str, Any]) -> bool:
        return True

    def _most_likely(self, observed: torch.Tensor, states: States) -> tuple[torch.Tensor, States]:
        # The distribution that the actor returns checks its arguments, which cannot be exported.
        output = self.model.sac_network.actor.trunk(self.model.norm_obs(observed))
        mean, _ = output.chunk(2, dim=-1)
        return torch.tanh(mean), ()

    def _sampled(self, observed: torch.Tensor, states: States) -> tuple[torch.Tensor, States]:
        return self.model.actor(self.model.norm_obs(observed)).sample(), ()

    def _scaled(self, actions: torch.Tensor) -> torch.Tensor:
        rescaled: torch.Tensor = rescale_actions(self.low, self.high, actions)
        return rescaled.clamp(self.low, self.high)


_ACTORS: Mapping[str, type[Actor]] = {
    "a2c_continuous": _ContinuousActor,
    "a2c_discrete": _DiscreteActor,
    "sac": _SacActor,
}


def build_actor(params: Mapping[str, Any], conversion: Conversion) -> Actor:
    """Build the model that the agent of these options has in training."""
    name, space = params["algo"]["name"], conversion.action_space()
    actor = _ACTORS.get(name)
    if actor is None or not isinstance(space, actor.ACTIONS):
        raise UsageError(
            f"params.algo.name={name}, in the agent options, cannot choose the task's actions, "
            f"{space}. Give the task and the agent options that it was trained with."
        )
    return actor(params, conversion)


def _actions_num(space: Any) -> Any:
    """Return what rl_games' networks take as the number of actions."""
    if isinstance(space, spaces.Tuple):
        return [choice.n for choice in space]
    return space.n if isinstance(space, spaces.Discrete) else space.shape[0]


def _as_floats(observations: torch.Tensor) -> torch.Tensor:
    return observations.float() / 255.0 if observations.dtype == torch.uint8 else observations


def _choice(logits: torch.Tensor) -> torch.Tensor:
    """Return the most likely choice, by the logits as `torch.distributions` normalizes them."""
    return (logits - logits.logsumexp(-1, keepdim=True)).argmax(-1)
